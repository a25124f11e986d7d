-- KEYS fronts, prober; ARGV front, for how many ms it lives ('0' = it ends); reply {'ok', '1' = this one asks the brokers, '1' = it was not known to live, names of the fronts that live ...}; may be repeated; does without a foreign prober
local bad = foreign(KEYS[1], 'zset')
if bad then return bad end
local KEEP_MS = 600000
local now_ms = deadline_ms(0)
local asks = attempt('string', 'GET', KEYS[2])
if ARGV[2] == '0' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  if asks == ARGV[1] then redis.call('DEL', KEYS[2]) end
  return {'ok', '0', '0'}
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms)
local is_new = redis.call('ZADD', KEYS[1], deadline_ms(ARGV[2]), ARGV[1]) == 1
redis.call('PEXPIRE', KEYS[1], KEEP_MS)
if asks == false or asks == ARGV[1] then
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
  asks = ARGV[1]
end
return {'ok', asks == ARGV[1] and '1' or '0', is_new and '1' or '0', unpack(redis.call('ZRANGEBYSCORE', KEYS[1], now_ms, '+inf'))}
