-- KEYS broker, lease, deadlines, then brokers and topics if they are to be looked at; ARGV broker id, epoch, expected token ('' = any), TTL in ms, deadline member, then broker name and topics of its table that are served; reply {'ok'}, {'fenced', epoch}, {'lease'} or {'table'}; may be repeated; does without foreign deadlines, brokers and topics
local group = redis.pcall('HMGET', KEYS[1], 'epoch:' .. ARGV[1], 'token', 'member:' .. ARGV[1], 'vouched:' .. ARGV[1])
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
local ends_ms = agent_deadline_ms(KEYS[1], ARGV[1], ARGV[4], group[4])
redis.call('PEXPIREAT', KEYS[2], ends_ms)
attempt('zset', 'ZADD', KEYS[3], ends_ms, ARGV[5])
if ARGV[3] ~= '' and token ~= ARGV[3] then
  return {'table'}
end
local is_listed = #KEYS == 3 or list_again(KEYS[1], KEYS[4], ARGV[6], KEYS[5], 7)
return {is_listed and 'ok' or 'table'}
