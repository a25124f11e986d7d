-- KEYS broker's topics, topics, changes, schema, broker, route index of each topic; ARGV broker name ('' = none: rows are removed that name no broker), change record ('' = none), bounds of the feed, bytes of the index keys before the topic's name, and of each topic: rows to remove, a line each ('' = the broker's); reply {'ok', numbers of the topics with an index of another type or a configuration that makes no row ...} or {'schema', key, number}; may be repeated: the second time it changes nothing; does without foreign changes
local bad = newer_schema(KEYS[4]) or foreign(KEYS[1], 'hash') or foreign(KEYS[2], 'set')
if bad then return bad end
local FIRST_KEY, FIRST_ARG = 6, 5
local broker, name_from = ARGV[1], ARGV[4] + 1
local topics = {}
for i = FIRST_KEY, #KEYS do
  topics[#topics + 1] = string.sub(KEYS[i], name_from)
end
local configs = redis.call('HMGET', KEYS[1], unpack(topics))
local indexes = redis.call('MGET', unpack(KEYS, FIRST_KEY))

-- Returns a text of lines, each between line feeds, without those that begin so, and where the first of them was.
local function without(text, start)
  local first
  local from = string.find(text, start, 1, true)
  while from do
    first = first or from
    text = string.sub(text, 1, from - 1) .. string.sub(text, (string.find(text, '\n', from + 1, true)))
    from = string.find(text, start, from, true)
  end
  return text, first
end

local function mended(index, config, nobodys)
  local text, at = index == '' and '\n' or '\n' .. index .. '\n', nil
  for row in string.gmatch(nobodys .. '\n', '([^\n]*)\n') do
    text = without(text, '\n' .. row .. '\n')
  end
  if broker ~= '' then
    text, at = without(text, '\n' .. broker .. ' ')
    at = at or #text
    text = config and string.sub(text, 1, at) .. row_of(broker, config) .. string.sub(text, at) or text
  end
  return string.sub(text, 2, -2)
end

local reply, changed, listed, emptied, unlisted, disowned = {'ok'}, {}, {}, {}, {}, false
for i, topic in ipairs(topics) do
  local key, index, config = KEYS[FIRST_KEY + i - 1], indexes[i], configs[i]
  local rowless = broker ~= '' and config and not row_of(broker, config)
  if rowless or (not index and foreign(key, 'string')) then -- MGET answers nil for a key of another type
    reply[#reply + 1] = i - 1
  else
    local rows = mended(index or '', config, ARGV[FIRST_ARG + i - 1])
    disowned = disowned or (broker ~= '' and not config and rows ~= index)
    if rows == '' then
      emptied[#emptied + 1] = key
      unlisted[#unlisted + 1] = topic
    elseif rows ~= index or redis.call('SISMEMBER', KEYS[2], topic) == 0 then -- who read that list is told, too
      changed[#changed + 1] = key
      changed[#changed + 1] = rows
      listed[#listed + 1] = topic
    end
  end
end
if #changed > 0 then redis.call('MSET', unpack(changed)) end
if #listed > 0 then redis.call('SADD', KEYS[2], unpack(listed)) end
if #emptied > 0 then redis.call('DEL', unpack(emptied)) end
if #unlisted > 0 then redis.call('SREM', KEYS[2], unpack(unlisted)) end
if disowned and redis.call('TYPE', KEYS[5]).ok == 'hash' then
  disown_table(KEYS[5]) -- the table may be what is damaged
end
if #listed + #unlisted > 0 and ARGV[2] ~= '' then
  announce(KEYS[3], ARGV[3], ARGV[2])
end
return reply
