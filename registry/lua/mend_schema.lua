-- KEYS schema; ARGV its value as it was read ('' = absent); reply {'ok'}, {'moved'} or {'schema', key, number}; may be repeated
local bad = newer_schema(KEYS[1])
if bad then
  return bad
end
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then
  return {'moved'}
end
redis.call('SET', KEYS[1], SCHEMA)
return {'ok'}
