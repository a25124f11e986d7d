-- KEYS group, changes, schema; ARGV field, its value as it was read ('' = absent), value to write ('' = remove), change record ('' = none), bounds of the feed; reply {'ok'}, {'moved'} or {'schema', key, number}; may be repeated: the second time answers 'moved'
local bad = newer_schema(KEYS[3]) or foreign(KEYS[1], 'hash') or foreign(KEYS[2], 'stream')
if bad then
  return bad
end
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then
  return {'moved'}
end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
if ARGV[4] ~= '' then
  announce(KEYS[2], ARGV[5], ARGV[4])
end
return {'ok'}
