-- KEYS group, changes, schema, lease of a replica, brokers; ARGV field, its value as it was read ('' = absent), value to write ('' = remove), change record ('' = none), bounds of the feed, that lease as it was read, the replica's id, its epoch as it was read ('' = any, in both), broker name; reply {'ok'}, {'moved'} or {'schema', key, number}; may be repeated: the second time answers 'moved'; does without foreign changes
local bad = newer_schema(KEYS[3]) or foreign(KEYS[1], 'hash') or foreign(KEYS[5], 'hash')
if bad then return bad end
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then
  return {'moved'}
end
-- What was read of an owner is written only while nobody has taken its place, and it has not gone.
if ARGV[6] ~= '' and redis.pcall('GET', KEYS[4]) ~= ARGV[6] then
  return {'moved'}
end
if ARGV[8] ~= '' and redis.call('HGET', KEYS[1], 'epoch:' .. ARGV[7]) ~= ARGV[8] then
  return {'moved'}
end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
  if ARGV[1] == 'cluster' then
    redis.call('HSET', KEYS[5], ARGV[9], ARGV[3])
  end
end
if ARGV[4] ~= '' then
  announce(KEYS[2], ARGV[5], ARGV[4])
end
return {'ok'}
