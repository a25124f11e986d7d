-- KEYS broker's topics, topics, changes, schema, broker, route index of each topic; ARGV change record ('' = none), bounds of the feed, bytes of the index keys before the topic's name, '1' = rows are removed that the broker's table lacks, and of each topic: its configuration and its index as they were read, the index to write ('' = none, in each); reply {'ok', numbers of the topics that have changed since they were read ...} or {'schema', key, number}; may be repeated: then all have changed; does without foreign changes
local bad = newer_schema(KEYS[4]) or foreign(KEYS[1], 'hash') or foreign(KEYS[2], 'set')
if bad then
  return bad
end
local FIRST_KEY, FIRST_ARG = 6, 5
local name_from = ARGV[3] + 1
local topics = {}
for i = FIRST_KEY, #KEYS do
  topics[#topics + 1] = string.sub(KEYS[i], name_from)
end
local configs = redis.call('HMGET', KEYS[1], unpack(topics))
local indexes = redis.call('MGET', unpack(KEYS, FIRST_KEY))

local reply, changed, listed, emptied, unlisted = {'ok'}, {}, {}, {}, {}
for i, topic in ipairs(topics) do
  local key, a = KEYS[FIRST_KEY + i - 1], FIRST_ARG + 3 * (i - 1)
  local index = indexes[i]
  local moved = (configs[i] or '') ~= ARGV[a] or (index or '') ~= ARGV[a + 1]
  if moved or (not index and foreign(key, 'string')) then -- MGET answers nil for a key of another type
    reply[#reply + 1] = i - 1
  elseif ARGV[a + 2] == '' then
    emptied[#emptied + 1] = key
    unlisted[#unlisted + 1] = topic
  else
    changed[#changed + 1] = key
    changed[#changed + 1] = ARGV[a + 2]
    listed[#listed + 1] = topic
  end
end
if #changed > 0 then redis.call('MSET', unpack(changed)) end
if #listed > 0 then redis.call('SADD', KEYS[2], unpack(listed)) end
if #emptied > 0 then redis.call('DEL', unpack(emptied)) end
if #unlisted > 0 then redis.call('SREM', KEYS[2], unpack(unlisted)) end
if ARGV[4] == '1' and redis.call('TYPE', KEYS[5]).ok == 'hash' then
  disown_table(KEYS[5]) -- the table may be what is damaged
end
if #listed + #unlisted > 0 and ARGV[1] ~= '' then
  announce(KEYS[3], ARGV[2], ARGV[1])
end
return reply
