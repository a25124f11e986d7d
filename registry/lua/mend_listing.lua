-- KEYS listing (a set, or the hash of brokers), schema, the two keys that the name may stand for; ARGV type of the listing, type of those keys, '1' = a name without a key is removed, name; reply {'ok', '1' = something was changed} or {'schema', key, number}; may be repeated
local bad = newer_schema(KEYS[2]) or foreign(KEYS[1], ARGV[1])
if bad then return bad end
local is, or_is = redis.call('TYPE', KEYS[3]).ok, redis.call('TYPE', KEYS[4]).ok
local in_set = ARGV[1] == 'set'
local changed = 0
if is == ARGV[2] or or_is == ARGV[2] then
  if in_set then
    changed = redis.call('SADD', KEYS[1], ARGV[4])
  elseif redis.call('HEXISTS', KEYS[1], ARGV[4]) == 0 then
    local cluster = is == ARGV[2] and redis.call('HGET', KEYS[3], 'cluster') or ''
    changed = redis.call('HSET', KEYS[1], ARGV[4], cluster)
  end
elseif is == 'none' and or_is == 'none' and ARGV[3] == '1' then
  if in_set then
    changed = redis.call('SREM', KEYS[1], ARGV[4])
  else
    changed = redis.call('HDEL', KEYS[1], ARGV[4])
  end
end
return {'ok', changed}
