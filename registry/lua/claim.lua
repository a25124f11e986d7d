-- KEYS broker, lease, brokers, schema, broker's topics; ARGV broker id, broker name, cluster, address, whether a live lease may be taken over ('0' = by a higher state version only, '1' = by the same address too, '2' = by anybody), state version, '1' = also when an operator keeps this address out, until it is activated, a lease whose owner was found gone ('' = none), which may be taken over too unless it was renewed, when it ends in ms of the store's clock, '1' = by a front, for all fronts together; reply {'ok', epoch}, {'out'}, {'owned', address, remaining ms, state version, epoch, when it ends in ms, data version} or {'schema', key, number}; may be repeated: each claim issues a newer epoch; does without foreign brokers and schema
local bad = newer_schema(KEYS[4], true) or foreign(KEYS[1], 'hash') or foreign(KEYS[2], 'string')
-- What the registration could not complete must not fence an owner that lives.
bad = bad or foreign(KEYS[5], 'hash')
if bad then return bad end
local field = 'epoch:' .. ARGV[1]
local previous, version, cluster, kept_out = unpack(redis.call('HMGET', KEYS[1], field, 'version:' .. ARGV[1], 'cluster', 'out:' .. ARGV[1]))
local lease = redis.call('GET', KEYS[2])
if lease and ARGV[5] ~= '2' then
  local epoch, address = string.match(lease, '^(%d+) (.+)$')
  if not address then
    return {'corrupt', KEYS[2], 'is no lease'}
  end
  local state_version = string.match(version or '', '^%d+') or '0'
  if #state_version > 19 then -- nobody's
    state_version = '0'
  end
  local restarted = address == ARGV[4] and ARGV[5] == '1'
  local elected = address ~= ARGV[4] and greater(ARGV[6], state_version)
  -- What was renewed ends later, by more than the clock can go on while a script runs (Redis 6.2).
  local CLOCK_MS = 5
  local left_ms = redis.call('PTTL', KEYS[2])
  local ends_ms = deadline_ms(left_ms)
  local gone = lease == ARGV[8] and ends_ms - ARGV[9] <= CLOCK_MS
  if not restarted and not elected and not gone then
    return {'owned', address, left_ms, state_version, epoch, ends_ms, version or ''}
  end
end
if kept_out == ARGV[4] and ARGV[7] ~= '1' then
  return {'out'}
end
if previous and not is_epoch(previous) then
  return {'corrupt', KEYS[1], 'has a field ' .. field .. ' that is no epoch'}
end
local epoch = newer_epoch(previous)
redis.call('HSET', KEYS[1], field, epoch)
if ARGV[10] == '1' then
  redis.call('HSET', KEYS[1], 'joint:' .. ARGV[1], epoch .. ' claimed')
end
attempt('hash', 'HSET', KEYS[3], ARGV[2], cluster and cluster ~= '' and cluster or ARGV[3]) -- a group moves when its replica is activated
if schema_at(KEYS[4]) then
  redis.call('SET', KEYS[4], SCHEMA)
end
return {'ok', epoch}
