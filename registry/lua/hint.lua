-- KEYS hints; ARGV client id, TTL in ms, longest TTL in ms, most hints of one broker, most of all, names of brokers; reply {'ok', of each hint that was not taken: broker, why}; may be repeated: what the client said before is replaced
local bad = foreign(KEYS[1], 'zset')
if bad then return bad end
local now_ms = deadline_ms(0)
local end_ms = string.format('%.0f', now_ms + ARGV[2])
local latest_ms = string.format('%.0f', now_ms + ARGV[3])
local voices, total, mine, last_ms = {}, 0, {}, 0
local live = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now_ms, latest_ms, 'WITHSCORES')
for i = 1, #live, 2 do
  local broker, client = string.match(live[i], '^([^ ]+) (.+)$')
  if client == ARGV[1] then
    mine[#mine + 1] = live[i]
  else
    voices[broker or ''] = (voices[broker or ''] or 0) + 1
    total = total + 1
    last_ms = math.max(last_ms, live[i + 1])
  end
end
-- What has ended, and what no hint can be: whoever wrote it, it is not to stay.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. latest_ms, '+inf')
for _, member in ipairs(mine) do
  redis.call('ZREM', KEYS[1], member)
end
local reply = {'ok'}
for i = 6, #ARGV do
  local why = (voices[ARGV[i]] or 0) >= tonumber(ARGV[4]) and 'enough others name it'
    or total >= tonumber(ARGV[5]) and 'there are too many hints'
  if why then
    reply[#reply + 1] = ARGV[i]
    reply[#reply + 1] = why
  else
    redis.call('ZADD', KEYS[1], end_ms, ARGV[i] .. ' ' .. ARGV[1])
    total, last_ms = total + 1, math.max(last_ms, end_ms)
  end
end
if total > 0 then
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', last_ms - now_ms))
end
return reply
