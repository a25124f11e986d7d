-- KEYS broker, lease, brokers; ARGV broker id, broker name, cluster, address, '1' = a live lease of the same address may be taken over; reply {'ok', epoch} or {'owned', address, remaining ms}; may be repeated: each claim issues a newer epoch
local bad = foreign(KEYS[1], 'hash') or foreign(KEYS[2], 'string') or foreign(KEYS[3], 'hash')
if bad then
  return bad
end
local lease = redis.call('GET', KEYS[2])
if lease then
  local address = string.match(lease, '^%d+ (.+)$')
  if not address then
    return {'corrupt', KEYS[2], 'is no lease'}
  end
  if address ~= ARGV[4] or ARGV[5] ~= '1' then
    return {'owned', address, redis.call('PTTL', KEYS[2])}
  end
end
local field = 'epoch:' .. ARGV[1]
local epoch = clock_us()
local previous = redis.call('HGET', KEYS[1], field)
if previous and not is_epoch(previous) then
  return {'corrupt', KEYS[1], 'has a field ' .. field .. ' that is no epoch'}
end
if previous and tonumber(previous) >= tonumber(epoch) then
  epoch = string.format('%.0f', tonumber(previous) + 1)
end
redis.call('HSET', KEYS[1], field, epoch)
redis.call('HSET', KEYS[3], ARGV[2], ARGV[3])
return {'ok', epoch}
