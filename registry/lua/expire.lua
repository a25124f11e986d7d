-- KEYS broker, lease, deadlines, changes; ARGV broker id, epoch ('0' = none), deadline member, change record, feed length in entries; reply {'ok'}, {'alive'} or {'fenced', epoch}; may be repeated: the second time it changes nothing
local bad = foreign(KEYS[1], 'hash') or foreign(KEYS[3], 'zset') or foreign(KEYS[4], 'stream')
if bad then
  return bad
end
-- Looking at a lease that has ended makes Redis delete it, and so send its `expired` event, at once.
local left_ms = redis.call('PTTL', KEYS[2])
if left_ms >= 0 then -- 0: its last millisecond
  redis.call('ZADD', KEYS[3], deadline_ms(left_ms), ARGV[3])
  return {'alive'}
end
local owner = redis.call('HGET', KEYS[1], 'epoch:' .. ARGV[1]) or '0'
if owner ~= ARGV[2] then
  return {'fenced', owner}
end
redis.call('HDEL', KEYS[1], 'member:' .. ARGV[1])
if redis.call('ZREM', KEYS[3], ARGV[3]) == 1 then
  announce(KEYS[4], ARGV[5], ARGV[4])
end
return {'ok'}
