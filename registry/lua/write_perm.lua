-- KEYS broker, broker's topics, changes, schema; ARGV '1' = take the write permission of all its topics away, '0' = give it back, change record, bounds of the feed; reply {'ok', topics of the broker, '1' = it was not so before}, {'unknown'} or {'schema', key, number}; may be repeated; does without foreign changes and schema
local bad = newer_schema(KEYS[4], true) or foreign(KEYS[1], 'hash') or foreign(KEYS[2], 'hash')
if bad then return bad end
if redis.call('EXISTS', KEYS[1]) == 0 then
  return {'unknown'}
end
local topics = redis.call('HLEN', KEYS[2])
local wiped = redis.call('HGET', KEYS[1], 'wiped') == '1' and '1' or '0'
if wiped == ARGV[1] then
  return {'ok', topics, '0'}
end
if ARGV[1] == '1' then
  redis.call('HSET', KEYS[1], 'wiped', '1')
else
  redis.call('HDEL', KEYS[1], 'wiped')
end
announce(KEYS[3], ARGV[3], ARGV[2])
return {'ok', topics, '1'}
