-- KEYS route index, topics, changes, schema, and of each broker that loses the topic: broker, broker's topics; ARGV topic, index as it was read, index to write ('' = remove), change record, bounds of the feed; reply {'ok', number of brokers that had it}, {'moved'} or {'schema', key, number}; may be repeated: the second time answers 'moved' or 0; does without foreign changes
local bad = newer_schema(KEYS[4]) or foreign(KEYS[1], 'string') or foreign(KEYS[2], 'set')
if bad then return bad end
local FIRST_BROKER = 5
for i = FIRST_BROKER, #KEYS do
  bad = foreign(KEYS[i], 'hash')
  if bad then return bad end
end
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[2] then
  return {'moved'}
end
local deleted = 0
for i = FIRST_BROKER, #KEYS, 2 do
  if redis.call('HDEL', KEYS[i + 1], ARGV[1]) == 1 then
    deleted = deleted + 1
    disown_table(KEYS[i]) -- a topic that its broker still has comes back
  end
end
if ARGV[3] == '' then
  redis.call('DEL', KEYS[1])
  redis.call('SREM', KEYS[2], ARGV[1])
elseif ARGV[3] ~= ARGV[2] then
  redis.call('SET', KEYS[1], ARGV[3])
end
if deleted > 0 or ARGV[3] ~= ARGV[2] then
  announce(KEYS[3], ARGV[5], ARGV[4])
end
return {'ok', deleted}
