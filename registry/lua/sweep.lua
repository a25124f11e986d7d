-- KEYS sweeper, deadlines; ARGV holder, lease of the sweeper in ms, limit, how many due ones to pass over; reply {'held', ms until its lease ends} or {'ok', ms until the next lease ends (-1 = none), deadline members that are due ...}; may be repeated
local bad = foreign(KEYS[1], 'string') or foreign(KEYS[2], 'zset')
if bad then
  return bad
end
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return {'held', redis.call('PTTL', KEYS[1])}
end
-- Renewed in its second half only: a sweep that comes early writes nothing.
if redis.call('PTTL', KEYS[1]) < ARGV[2] / 2 then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
local now_ms = math.floor(clock_us() / 1000)
local reply = {'ok', -1}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now_ms, 'LIMIT', ARGV[4], ARGV[3])) do
  reply[#reply + 1] = member
end
local nearest = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. string.format('%.0f', now_ms), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
if nearest[2] then
  reply[2] = nearest[2] - now_ms
end
return reply
