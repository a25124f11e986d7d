-- KEYS broker, lease, deadlines, changes, lease of id 0, brokers, topics, schema, leases that this address has under other ids; ARGV broker id, epoch, expected token ('' = any), lease value, TTL in ms, deadline member, member, cluster, data version ('' = unknown), change record, bounds of the feed, address, broker name, and of each other id: id, deadline member, change record; reply {'ok', lease of id 0, member of id 0 ('' = none)}, {'fenced', epoch}, {'moved', token} or {'elsewhere', id, epoch} when the address stands under an id that was not named; may be repeated: it announces only what changed; does without foreign deadlines, changes, brokers, topics and schema, and names them
local bad = foreign(KEYS[1], 'hash') or foreign(KEYS[2], 'string')
if bad then return bad end
local member = 'member:' .. ARGV[1]
local out = 'out:' .. ARGV[1]
local joint_field, vouched_field = 'joint:' .. ARGV[1], 'vouched:' .. ARGV[1]
local owner, token, known, cluster, kept_out, joint, vouched = unpack(redis.call('HMGET', KEYS[1], 'epoch:' .. ARGV[1], 'token', member, 'cluster', out, joint_field, vouched_field))
if owner ~= ARGV[2] then
  return {'fenced', owner or '0'}
end
if ARGV[3] ~= '' and token ~= ARGV[3] then
  return {'moved', token or ''}
end
local moves = cluster ~= ARGV[8]
local lease = redis.call('GET', KEYS[2])

-- One address is one replica: what it was before it changed its role, it is no longer, and cannot become by itself.
local FIRST_LEASE, FIRST_ARG = 9, 14
if lease ~= ARGV[4] then
  local named = {[ARGV[1]] = true}
  for a = FIRST_ARG, #ARGV, 3 do
    named[ARGV[a]] = true
  end
  local group = redis.call('HGETALL', KEYS[1])
  for i = 1, #group, 2 do
    local id = string.match(group[i], '^member:([1-9]%d*)$') or string.match(group[i], '^member:(0)$')
    local readable, other = pcall(cjson.decode, group[i + 1])
    if id and not named[id] and readable and type(other) == 'table' and other.address == ARGV[12] then
      return {'elsewhere', id, redis.call('HGET', KEYS[1], 'epoch:' .. id) or '0'}
    end
  end
end
for i = 0, #KEYS - FIRST_LEASE do
  local key, id = KEYS[FIRST_LEASE + i], ARGV[FIRST_ARG + 3 * i]
  local other = redis.pcall('GET', key)
  local address = type(other) == 'string' and string.match(other, '^%d+ (.+)$')
  if not other or address == ARGV[12] then
    redis.call('DEL', key)
    attempt('zset', 'ZREM', KEYS[3], ARGV[FIRST_ARG + 3 * i + 1])
    local gone = redis.call('HDEL', KEYS[1], 'member:' .. id)
    redis.call('HDEL', KEYS[1], 'version:' .. id)
    local previous = redis.call('HGET', KEYS[1], 'epoch:' .. id)
    redis.call('HSET', KEYS[1], 'epoch:' .. id, newer_epoch(is_epoch(previous) and previous or ARGV[2]))
    if gone == 1 then
      announce(KEYS[4], ARGV[11], ARGV[FIRST_ARG + 3 * i + 2])
    end
  end
end

local ends_ms = deadline_ms(ARGV[5])
if joint and is_joint(joint, owner) then
  redis.call('HSET', KEYS[1], joint_field, owner)
else
  ends_ms = agent_deadline_ms(KEYS[1], ARGV[1], ARGV[5], vouched)
end
redis.call('SET', KEYS[2], ARGV[4], 'PXAT', ends_ms)
attempt('zset', 'ZADD', KEYS[3], ends_ms, ARGV[6])
redis.call('HSET', KEYS[1], member, ARGV[7], 'cluster', ARGV[8])
if kept_out == ARGV[12] then -- the claim was told that it may
  redis.call('HDEL', KEYS[1], out)
end
if attempt('hash', 'HGET', KEYS[6], ARGV[13]) ~= ARGV[8] then
  attempt('hash', 'HSET', KEYS[6], ARGV[13], ARGV[8])
end
if foreign(KEYS[7], 'set') then -- put_topics writes it, and had nothing to write perhaps
  leave_out(KEYS[7])
end
if schema_at(KEYS[8]) then
  redis.call('SET', KEYS[8], SCHEMA, 'NX')
end
if ARGV[9] ~= '' then
  redis.call('HSET', KEYS[1], 'version:' .. ARGV[1], ARGV[9])
elseif lease ~= ARGV[4] then -- the version that is known is another owner's
  redis.call('HDEL', KEYS[1], 'version:' .. ARGV[1])
end
if lease ~= ARGV[4] or known ~= ARGV[7] or moves then
  announce(KEYS[4], ARGV[11], ARGV[10])
end
local master = redis.pcall('GET', KEYS[5])
if type(master) ~= 'string' then
  return {'ok', '', ''}
end
return {'ok', master, redis.call('HGET', KEYS[1], 'member:0') or ''}
