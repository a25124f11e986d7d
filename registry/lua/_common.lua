-- What the scripts share; stands before each of them.

-- Returns the reply to give when `key` exists and holds something else than a `want`, else nil.
local function foreign(key, want)
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'none' and kind ~= want then
    return {'corrupt', key, 'is a ' .. kind .. ', not a ' .. want}
  end
end

-- Returns whether `text` is an epoch, and so exact as a Lua number.
local function is_epoch(text)
  return #text <= 16 and string.match(text, '^%d+$') ~= nil
end

-- Returns the store's clock as microseconds since 1970: a string of 16 digits, exact as a Lua number.
local function clock_us()
  local now = redis.call('TIME')
  return string.format('%d%06d', now[1], now[2])
end

-- Returns when a lease of `ttl_ms` that begins now ends: whole milliseconds of the store's clock.
local function deadline_ms(ttl_ms)
  return string.format('%.0f', math.floor(clock_us() / 1000) + ttl_ms)
end

-- Appends `record` to the stream and rings the doorbell: "previous id, id, record if it is short".
local function announce(stream, max_entries, record)
  local last = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)
  local previous = last[1] and last[1][1] or '0-0'
  local id = redis.call('XADD', stream, 'MAXLEN', '~', max_entries, '*', 'c', record)
  redis.call('PUBLISH', stream, previous .. ' ' .. id .. ' ' .. (#record <= 512 and record or ''))
  return id
end
