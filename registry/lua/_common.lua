-- What the scripts share; stands before each of them.

-- Returns the reply to give when `key` exists and holds something else than a `want`, else nil.
local function foreign(key, want)
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'none' and kind ~= want then
    return {'corrupt', key, 'is a ' .. kind .. ', not a ' .. want}
  end
end

-- Keys that hold something else than they should and that the script did without: `told` adds them to its reply.
local left_out = {}

local function leave_out(key)
  for _, known in ipairs(left_out) do
    if known == key then
      return
    end
  end
  left_out[#left_out + 1] = key
end

-- Runs a command on a key that only lists what stands elsewhere, and that nobody's life hangs on: an index, the
-- deadlines, the stream. Returns its reply, or nil, and leaves the key out, when it holds something else than a `want`.
local function attempt(want, command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then
    return reply
  end
  if foreign(key, want) then
    leave_out(key)
    return nil
  end
  return redis.call(command, key, ...) -- raises what it answered
end

-- Returns the reply of a script; in {'without', {keys ...}, reply} if it did without some.
local function told(reply)
  if #left_out == 0 or reply.err or reply[1] == 'corrupt' then
    return reply
  end
  return {'without', left_out, reply}
end

-- Returns whether `text`, which may be missing, is an epoch, and so exact as a Lua number.
local function is_epoch(text)
  return type(text) == 'string' and #text <= 16 and string.match(text, '^%d+$') ~= nil and tonumber(text) < 9007199254740992
end

-- Returns the store's clock as microseconds since 1970: a string of 16 digits, exact as a Lua number.
local function clock_us()
  local now = redis.call('TIME')
  return string.format('%d%06d', now[1], now[2])
end

-- Returns when a lease of `ttl_ms` that begins now ends: whole milliseconds of the store's clock. The lease is given
-- this very time, not its TTL: before Redis 7 the clock goes on while a script runs.
local function deadline_ms(ttl_ms)
  return string.format('%.0f', math.floor(clock_us() / 1000) + ttl_ms)
end

-- Returns whether fronts claimed this epoch together: then no agent has the broker. `joint` says so, and that the claim
-- has not led to a lease yet.
local function is_joint(joint, epoch)
  return joint == epoch or joint == epoch .. ' claimed'
end

-- Returns when a lease of `ttl_ms` ends that an agent renews now: not before fronts no longer vouch for the broker, by
-- `vouched`, a field of the group. It is noted for them until when the agent itself does.
local function agent_deadline_ms(key, id, ttl_ms, vouched)
  local ends_ms = deadline_ms(ttl_ms)
  if not vouched then
    return ends_ms
  end
  local until_ms = string.match(vouched, '^%d+') or '0'
  if tonumber(until_ms) <= tonumber(deadline_ms(0)) then
    redis.call('HDEL', key, 'vouched:' .. id, 'agent:' .. id)
    return ends_ms
  end
  redis.call('HDEL', key, 'agent:' .. id) -- takes no memory: a full server refuses what does, unless a script has written
  redis.call('HSET', key, 'agent:' .. id, ends_ms)
  return tonumber(until_ms) > tonumber(ends_ms) and until_ms or ends_ms
end

-- Returns the schema number at `key`, and SCHEMA where none stands; nil, and leaves it out, when it is no number.
local function schema_at(key)
  local schema = attempt('string', 'GET', key)
  if schema == false then
    return SCHEMA
  end
  if schema and #schema <= 19 and string.match(schema, '^%d+$') then
    return schema
  end
  leave_out(key)
end

-- Returns the reply to give when a newer sharedroutes keeps the registry, else nil. No release writes anything else
-- than a number: what a broker's life hangs on goes on where there is none (`or_none`), and the rest is refused.
local function newer_schema(key, or_none)
  local schema = schema_at(key)
  if not schema then
    return not or_none and {'corrupt', key, 'is no schema number'} or nil
  end
  if tonumber(schema) > tonumber(SCHEMA) then
    return {'schema', key, schema}
  end
end

-- Returns whether the decimal number `a` is greater than `b`: both are strings, of up to 19 digits.
local function greater(a, b)
  return #a > #b or (#a == #b and a > b)
end

-- Returns an epoch that is newer than `previous` (or nil) and than all that the store's clock has issued.
local function newer_epoch(previous)
  local epoch = clock_us()
  if previous and tonumber(previous) >= tonumber(epoch) then
    return string.format('%.0f', tonumber(previous) + 1)
  end
  return epoch
end

-- Gives the table of the group at `key` a name that no owner gives, not even one whose last writes were lost: the
-- owner's next heartbeat finds another table than its own and looks.
local function disown_table(key)
  local epoch, count = string.match(redis.call('HGET', key, 'token') or '', '^(%d+)%.(%d+)')
  if epoch then
    redis.call('HSET', key, 'token', clock_us() .. '.' .. string.format('%.0f', count + 1))
  end
end

-- Lists the broker of the group at `key` again where the list was lost, or was foreign and was moved away. Returns
-- whether topics of its table, the arguments from `first` on, are listed; if not, the table is disowned, and its owner
-- lists all anew.
local function list_again(key, brokers, name, topics, first)
  if attempt('hash', 'HEXISTS', brokers, name) == 0 then
    attempt('hash', 'HSET', brokers, name, redis.call('HGET', key, 'cluster') or '')
  end
  local is_lost = false
  for a = first, #ARGV do
    is_lost = is_lost or attempt('set', 'SISMEMBER', topics, ARGV[a]) == 0
  end
  if is_lost then
    disown_table(key)
  end
  return not is_lost
end

-- Returns the row of a route index that a broker's configuration of a topic makes; nil for an empty one, or garbage.
local function row_of(broker, config)
  local numbers, mapping = string.match(config, '^(%d+ %d+ %d+ %d+)[^\t]*\t?(.*)$')
  return numbers and broker .. ' ' .. numbers .. (mapping ~= '' and ' ' .. mapping or '')
end

local SHORT_BYTES = 512

-- Appends `record` to the stream and rings the doorbell: "previous id, id, record if it is short", and "- - record"
-- where a foreign key stands in the place of the stream: then nobody can read it again.
-- `rows`, if any, are topic, row before ('' = none) and row now of a few topics: the doorbell alone has them, in the
-- record if that stays short, so that whoever knows the row before need not read the index.
-- `bounds` is "entries, minimum age in ms": older surplus is trimmed, in whole nodes of the stream.
local function announce(stream, bounds, record, rows)
  local short = #record <= SHORT_BYTES and record or ''
  if rows and #rows > 0 then
    local longer = string.sub(record, 1, -2) .. ',"rows":' .. cjson.encode(rows) .. '}'
    short = #longer <= SHORT_BYTES and longer or short
  end
  local last = attempt('stream', 'XREVRANGE', stream, '+', '-', 'COUNT', 1)
  if not last then
    redis.call('PUBLISH', stream, '- - ' .. short)
    return
  end
  local previous = last[1] and last[1][1] or '0-0'
  local id = redis.call('XADD', stream, '*', 'c', record)
  local entries, min_age_ms = string.match(bounds, '^(%d+) (%d+)$')
  local surplus = redis.call('XLEN', stream) - entries
  if surplus > 0 then
    redis.call('XTRIM', stream, 'MINID', '~', deadline_ms(-min_age_ms), 'LIMIT', surplus)
  end
  redis.call('PUBLISH', stream, previous .. ' ' .. id .. ' ' .. short)
end
