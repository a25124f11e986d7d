-- KEYS broker, lease, deadlines, changes; ARGV broker id, epoch, deadline member, change record, bounds of the feed, address that an operator wants to be kept out from now on ('' = none); reply {'ok', '1' = it was registered} or {'fenced', epoch}; may be repeated; does without foreign deadlines and changes
local bad = foreign(KEYS[1], 'hash') or foreign(KEYS[2], 'string')
if bad then return bad end
local owner = redis.call('HGET', KEYS[1], 'epoch:' .. ARGV[1])
if owner ~= ARGV[2] then
  return {'fenced', owner or '0'}
end
if ARGV[6] ~= '' then
  redis.call('HSET', KEYS[1], 'out:' .. ARGV[1], ARGV[6])
end
local was_member = redis.call('HDEL', KEYS[1], 'member:' .. ARGV[1])
redis.call('HDEL', KEYS[1], 'version:' .. ARGV[1], 'vouched:' .. ARGV[1], 'agent:' .. ARGV[1])
attempt('zset', 'ZREM', KEYS[3], ARGV[3])
local was_alive = redis.call('DEL', KEYS[2])
if was_member + was_alive == 0 then
  return {'ok', '0'}
end
announce(KEYS[4], ARGV[5], ARGV[4])
return {'ok', '1'}
