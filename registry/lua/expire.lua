-- KEYS broker, lease, deadlines, changes; ARGV broker id, epoch ('0' = none), deadline member, change record, bounds of the feed; reply {'ok', '1' = announced}, {'alive'} or {'fenced', epoch}; may be repeated: the second time it changes nothing; does without foreign deadlines and changes
local bad = foreign(KEYS[1], 'hash')
if bad then return bad end
-- Looking at a lease that has ended makes Redis delete it, and so send its `expired` event, at once.
local left_ms = redis.call('PTTL', KEYS[2])
if left_ms >= 0 then -- 0: its last millisecond
  attempt('zset', 'ZREM', KEYS[3], ARGV[3]) -- a server that is full lets a script go on that has written
  attempt('zset', 'ZADD', KEYS[3], deadline_ms(left_ms), ARGV[3])
  return {'alive'}
elseif left_ms == -1 and not foreign(KEYS[2], 'string') then -- what is no string is no lease: lookups pass it over
  return {'corrupt', KEYS[2], 'never ends'}
end
local owner = redis.call('HGET', KEYS[1], 'epoch:' .. ARGV[1]) or '0'
if owner ~= ARGV[2] then
  return {'fenced', owner}
end
local was_member = redis.call('HDEL', KEYS[1], 'member:' .. ARGV[1])
redis.call('HDEL', KEYS[1], 'version:' .. ARGV[1], 'vouched:' .. ARGV[1], 'agent:' .. ARGV[1])
local was_listed = attempt('zset', 'ZREM', KEYS[3], ARGV[3])
if (was_listed or was_member) == 0 then
  return {'ok', '0'}
end
announce(KEYS[4], ARGV[5], ARGV[4])
return {'ok', '1'}
