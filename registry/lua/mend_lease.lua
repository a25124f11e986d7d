-- KEYS group, lease, deadlines, schema; ARGV broker id, TTL in ms for a lease that never ends, deadline member; reply {'ok'} or {'schema', key, number}; may be repeated
local bad = newer_schema(KEYS[4]) or foreign(KEYS[1], 'hash') or foreign(KEYS[2], 'string') or foreign(KEYS[3], 'zset')
if bad then return bad end
local left_ms = redis.call('PTTL', KEYS[2])
if left_ms == -1 then
  local ends_ms = deadline_ms(ARGV[2])
  redis.call('PEXPIREAT', KEYS[2], ends_ms)
  redis.call('ZADD', KEYS[3], ends_ms, ARGV[3])
elseif left_ms >= 0 then
  redis.call('ZADD', KEYS[3], deadline_ms(left_ms), ARGV[3])
elseif redis.call('HEXISTS', KEYS[1], 'member:' .. ARGV[1]) == 1 then -- it has ended: whoever sweeps shall find it
  redis.call('ZADD', KEYS[3], 'NX', deadline_ms(-1), ARGV[3])
end
return {'ok'}
