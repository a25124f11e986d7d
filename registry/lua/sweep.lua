-- KEYS sweeper, deadlines, changes; ARGV holder, lease of the sweeper in ms, limit, how many due ones to pass over; reply {'held', clock in ms, ms until its lease ends} or {'ok', clock in ms, ms until the next lease has ended (-1 = none), ms left of the caller's own lease before and after this call (before: -1 = it had none), deadline members that are due ...}; may be repeated; does without foreign deadlines: then nothing is due; rings a pulse when it renews the lease

-- Says on the doorbell that the sweep is at work: "last id, last id, pulse, clock in ms". Who stands at the last id has
-- missed nothing; a client from before there were pulses takes it for a change that it knows.
local function pulse(stream, now_ms)
  local last = redis.pcall('XREVRANGE', stream, '+', '-', 'COUNT', 1)
  if last.err then
    return
  end
  local id = last[1] and last[1][1] or '0-0'
  redis.call('PUBLISH', stream, id .. ' ' .. id .. ' pulse ' .. now_ms)
end

local bad = foreign(KEYS[1], 'string')
if bad then return bad end
local now_ms = string.format('%.0f', math.floor(clock_us() / 1000))
local holder, left_ms = redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])
if holder and holder ~= ARGV[1] and left_ms >= 0 then -- -1: somebody took its TTL away, so it would hold for ever
  return {'held', now_ms, left_ms}
end
local before_ms = math.max(left_ms, -1)
-- Renewed in its second half only: a sweep that comes early writes nothing.
local renews = left_ms < ARGV[2] / 2
if renews then
  redis.call('DEL', KEYS[1]) -- a server that is full lets a script go on that has written, and SET is no exception
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  left_ms = tonumber(ARGV[2])
end
local reply = {'ok', now_ms, -1, before_ms, left_ms}
-- In the millisecond of its deadline a lease still lives.
local due = attempt('zset', 'ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. now_ms, 'LIMIT', ARGV[4], ARGV[3])
if not due then
  return reply
end
if renews then
  pulse(KEYS[3], now_ms)
end
for _, member in ipairs(due) do
  reply[#reply + 1] = member
end
local nearest = redis.call('ZRANGEBYSCORE', KEYS[2], now_ms, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
if nearest[2] then
  reply[3] = nearest[2] - now_ms + 1
end
return reply
