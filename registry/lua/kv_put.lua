-- KEYS namespace, namespaces, changes, schema; ARGV name of the namespace, key, value, change record, bounds of the feed; reply {'ok', '1' = it was not so before} or {'schema', key, number}; may be repeated; does without foreign changes
local bad = newer_schema(KEYS[4]) or foreign(KEYS[1], 'hash') or foreign(KEYS[2], 'set')
if bad then return bad end
if redis.call('HGET', KEYS[1], ARGV[2]) == ARGV[3] then
  return {'ok', '0'}
end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('SET', KEYS[4], SCHEMA)
announce(KEYS[3], ARGV[5], ARGV[4])
return {'ok', '1'}
