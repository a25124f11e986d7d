-- KEYS schema; ARGV none; reply {'ok'} or {'schema', key, number}; may be repeated: a number that stands there stays
local bad = newer_schema(KEYS[1])
if bad then return bad end
redis.call('SET', KEYS[1], SCHEMA, 'NX')
return {'ok'}
