-- KEYS broker, broker's topics, topics, changes, leases of the replicas before whom this one has no say, route index of each topic; ARGV broker id, epoch, expected token, new token, broker name, change record, bounds of the feed, bytes of the index keys before the topic's name, number of those leases, pairs of a configuration ('' = remove) and the number of topics that have it, in the order of their keys; reply {'ok', foreign index keys ...}, {'fenced', epoch}, {'moved', token} or {'junior', lease}; may be repeated: the second time answers 'moved'; does without foreign topics and changes
local bad = foreign(KEYS[1], 'hash') or foreign(KEYS[2], 'hash')
if bad then return bad end
local owner, token = unpack(redis.call('HMGET', KEYS[1], 'epoch:' .. ARGV[1], 'token'))
if owner ~= ARGV[2] then
  return {'fenced', owner or '0'}
end
if (token or '') ~= ARGV[3] then
  return {'moved', token or ''}
end

for i = 5, 4 + ARGV[9] do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    return {'junior', KEYS[i]}
  end
end

local FIRST_KEY, FIRST_ARG = 5 + ARGV[9], 10
local TOLD_TOPICS = 4 -- more would hardly fit into the doorbell
local broker, name_from = ARGV[5], ARGV[8] + 1

-- Returns how many of the index keys exist, up to the one at `to`.
local function exist(to)
  return redis.call('EXISTS', unpack(KEYS, FIRST_KEY, to))
end

-- Mostly all topics are new, or none is: the first one tells what to ask for.
local none_exist = #KEYS < FIRST_KEY or (exist(FIRST_KEY) == 0 and exist(#KEYS) == 0)
local indexes = none_exist and {} or redis.call('MGET', unpack(KEYS, FIRST_KEY))
-- MGET answers nil for a key of another type: when fewer values came than keys exist, look which.
local foreign_key, present, reply = {}, 0, {'ok'}
for i = 1, #indexes do
  if indexes[i] then
    present = present + 1
  end
end
if present < #indexes and present < exist(#KEYS) then
  for i = 1, #KEYS - FIRST_KEY + 1 do
    local key = KEYS[FIRST_KEY + i - 1]
    if not indexes[i] and foreign(key, 'string') then
      foreign_key[key] = true
      reply[#reply + 1] = key
    end
  end
end

local first, mark = broker .. ' ', '\n' .. broker .. ' '
local sub, find = string.sub, string.find

-- Returns the index with the broker's row replaced, added, or (row = nil) removed, and the row that it had ('' = none).
local function with_row(index, row)
  local from, rest = 1, #first
  if sub(index, 1, rest) ~= first then
    from, rest = find(index, mark, 1, true)
    if not from then
      return row and index .. '\n' .. row or index, ''
    end
    from = from + 1
  end
  local to = find(index, '\n', rest, true)
  local before, after = sub(index, 1, from - 1), to and sub(index, to) or ''
  local old = sub(index, from, to and to - 1)
  if row then
    return before .. row .. after, old
  end
  return from > 1 and sub(before, 1, -2) .. after or sub(after, 2), old
end

local configs, gone, unrouted, changed, emptied, listed, unlisted, rows = {}, {}, {}, {}, {}, {}, {}, {}
local kept, indexed = 0, 0 -- entries of configs and of changed: # would search for the end each time
local few = #KEYS - FIRST_KEY < TOLD_TOPICS

-- Adds up what is to be written.
local keys, planned = KEYS, FIRST_KEY - 1
for a = FIRST_ARG, #ARGV, 2 do
  local config = ARGV[a]
  local row = row_of(broker, config)
  for k = planned + 1, planned + ARGV[a + 1] do
    local key = keys[k]
    local topic = sub(key, name_from)
    local found = indexes[k - FIRST_KEY + 1]
    if foreign_key[key] then -- what cannot be routed is not kept: the next registration tries again
      unrouted[#unrouted + 1] = topic
    else
      local index, old = row or '', ''
      if found and found ~= '' then
        index, old = with_row(found, row)
      end
      if row then
        configs[kept + 1], configs[kept + 2] = topic, config
        kept = kept + 2
      else
        gone[#gone + 1] = topic
      end
      if row and few and #old + #row <= SHORT_BYTES then -- a longer one has no room in the doorbell
        for _, part in ipairs({topic, old, row}) do
          rows[#rows + 1] = part
        end
      end
      if index == '' then
        emptied[#emptied + 1] = key
        unlisted[#unlisted + 1] = topic
      else
        changed[indexed + 1], changed[indexed + 2] = key, index
        indexed = indexed + 2
        listed[indexed / 2] = topic
      end
    end
  end
  planned = planned + ARGV[a + 1]
end

if #configs > 0 then redis.call('HSET', KEYS[2], unpack(configs)) end
if #gone > 0 then redis.call('HDEL', KEYS[2], unpack(gone)) end
if #unrouted > 0 then redis.call('HDEL', KEYS[2], unpack(unrouted)) end
if #changed > 0 then redis.call('MSET', unpack(changed)) end
if #listed > 0 then attempt('set', 'SADD', KEYS[3], unpack(listed)) end
if #emptied > 0 then redis.call('DEL', unpack(emptied)) end
if #unlisted > 0 then attempt('set', 'SREM', KEYS[3], unpack(unlisted)) end
redis.call('HSET', KEYS[1], 'token', ARGV[4])
if #configs + #gone > 0 then announce(KEYS[4], ARGV[7], ARGV[6], rows) end
return reply
