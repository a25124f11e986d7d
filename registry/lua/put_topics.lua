-- KEYS broker, broker's topics, topics, changes, route index of each topic; ARGV broker id, epoch, expected token, new token, broker name, change record, feed length in entries, bytes of the index keys before the topic's name, one configuration a topic ('' = remove it); reply {'ok', foreign index keys ...}, {'fenced', epoch} or {'moved', token}; may be repeated: the second time answers 'moved'
local bad = foreign(KEYS[1], 'hash') or foreign(KEYS[2], 'hash') or foreign(KEYS[3], 'set') or foreign(KEYS[4], 'stream')
if bad then
  return bad
end
local owner, token = unpack(redis.call('HMGET', KEYS[1], 'epoch:' .. ARGV[1], 'token'))
if owner ~= ARGV[2] then
  return {'fenced', owner or '0'}
end
if (token or '') ~= ARGV[3] then
  return {'moved', token or ''}
end

local FIRST_KEY, FIRST_ARG = 5, 9
local broker, name_from = ARGV[5], ARGV[8] + 1

-- MGET answers nil for a key of another type: when fewer values came than keys exist, look which.
local indexes = redis.call('MGET', unpack(KEYS, FIRST_KEY))
local foreign_key, present, reply = {}, 0, {'ok'}
for i = 1, #KEYS - FIRST_KEY + 1 do
  if indexes[i] then
    present = present + 1
  end
end
if present < redis.call('EXISTS', unpack(KEYS, FIRST_KEY)) then
  for i = 1, #KEYS - FIRST_KEY + 1 do
    local key = KEYS[FIRST_KEY + i - 1]
    if not indexes[i] and foreign(key, 'string') then
      foreign_key[i] = true
      reply[#reply + 1] = key
    end
  end
end

-- Returns the index with the broker's row replaced, added, or (row = nil) removed.
local function with_row(index, row)
  if not index then
    return row or ''
  end
  local text = '\n' .. index .. '\n'
  local from = string.find(text, '\n' .. broker .. ' ', 1, true)
  if not from then
    return row and index .. '\n' .. row or index
  end
  local to = string.find(text, '\n', from + 1, true)
  local rest = string.sub(text, 1, from) .. (row and row .. '\n' or '') .. string.sub(text, to + 1)
  return string.sub(rest, 2, -2)
end

local configs, gone, changed, emptied, listed, unlisted = {}, {}, {}, {}, {}, {}
for i = 1, #KEYS - FIRST_KEY + 1 do
  local key, config = KEYS[FIRST_KEY + i - 1], ARGV[FIRST_ARG + i - 1]
  local topic = string.sub(key, name_from)
  local row = nil
  if config == '' then
    gone[#gone + 1] = topic
  else
    configs[#configs + 1] = topic
    configs[#configs + 1] = config
    row = broker .. ' ' .. string.match(config, '^%d+ %d+ %d+ %d+')
  end
  if not foreign_key[i] then
    local index = with_row(indexes[i], row)
    if index == '' then
      emptied[#emptied + 1] = key
      unlisted[#unlisted + 1] = topic
    else
      changed[#changed + 1] = key
      changed[#changed + 1] = index
      listed[#listed + 1] = topic
    end
  end
end

if #configs > 0 then redis.call('HSET', KEYS[2], unpack(configs)) end
if #gone > 0 then redis.call('HDEL', KEYS[2], unpack(gone)) end
if #changed > 0 then redis.call('MSET', unpack(changed)) end
if #listed > 0 then redis.call('SADD', KEYS[3], unpack(listed)) end
if #emptied > 0 then redis.call('DEL', unpack(emptied)) end
if #unlisted > 0 then redis.call('SREM', KEYS[3], unpack(unlisted)) end
redis.call('HSET', KEYS[1], 'token', ARGV[4])
announce(KEYS[4], ARGV[7], ARGV[6])
return reply
