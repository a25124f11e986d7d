-- KEYS broker, lease, deadlines; ARGV broker id, epoch, expected token ('' = any), TTL in ms, deadline member; reply {'ok'}, {'fenced', epoch}, {'lease'} or {'table'}; may be repeated
local group = redis.pcall('HMGET', KEYS[1], 'epoch:' .. ARGV[1], 'token', 'member:' .. ARGV[1])
if group.err then
  return foreign(KEYS[1], 'hash') or group
end
local owner, token = group[1], group[2]
if owner and owner ~= ARGV[2] then
  -- An older epoch than the caller's comes back when a failover has lost writes: nobody took the broker over.
  local rolled_back = is_epoch(owner) and tonumber(owner) < tonumber(ARGV[2])
  return rolled_back and {'lease'} or {'fenced', owner}
end
local lease = redis.pcall('GET', KEYS[2])
if not owner or not group[3] or type(lease) ~= 'string' or string.match(lease, '^%d+') ~= owner then
  return {'lease'}
end
local ends_ms = deadline_ms(ARGV[4])
redis.call('PEXPIREAT', KEYS[2], ends_ms)
local listed = redis.pcall('ZADD', KEYS[3], ends_ms, ARGV[5])
if type(listed) == 'table' then -- told after the lease was renewed, so that no broker dies of it
  return foreign(KEYS[3], 'zset') or listed
end
if ARGV[3] ~= '' and token ~= ARGV[3] then
  return {'table'}
end
return {'ok'}
