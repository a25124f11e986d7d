-- KEYS broker, lease, sessions, deadlines, lease of id 0, then brokers and topics if they are to be looked at; ARGV broker id, address, TTL in ms ('' = that of the last vouch), session ('' = none), ms since the broker registered on its connection, deadline member, member ('' = any), then broker name and topics of its table that are served; reply {'ok', epoch, token, owner ('agent', 'fronts' or 'gone' = an agent that is), '1' = the member is as given, lease of id 0, member of id 0 ('' = none)}, {'none'} = there is no lease, {'claimed', ms since then} = it is being registered, or {'other', address} = the lease is of another one; may be repeated; does without foreign deadlines, brokers and topics
local bad = foreign(KEYS[1], 'hash') or foreign(KEYS[2], 'string') or foreign(KEYS[3], 'hash')
if bad then return bad end
local id, DEFAULT_TTL_MS = ARGV[1], '120000'
local epoch, token, member, joint, vouched, agent_ms = unpack(redis.call('HMGET', KEYS[1], 'epoch:' .. id, 'token', 'member:' .. id, 'joint:' .. id, 'vouched:' .. id, 'agent:' .. id))
local lease = redis.call('GET', KEYS[2])
local owner, address = string.match(lease or '', '^(%d+) (.+)$')
if owner and address ~= ARGV[2] then
  return {'other', address}
end
local is_half_way = owner and owner ~= epoch or not owner and epoch and joint == epoch .. ' claimed'
if is_half_way and is_epoch(epoch) then
  return {'claimed', string.format('%.0f', (clock_us() - epoch) / 1000)}
end
if not owner or not member or not epoch then
  return {'none'}
end

local lease_ends_ms = deadline_ms(redis.call('PTTL', KEYS[2]))
local ttl_ms = ARGV[3] ~= '' and ARGV[3] or string.match(vouched or '', ' (%d+)$') or DEFAULT_TTL_MS
local ends_ms = deadline_ms(ttl_ms)
local renews = tonumber(ends_ms) > tonumber(lease_ends_ms)
-- First what takes no memory: a full server refuses a script what does, and not after it has written.
redis.call('PEXPIREAT', KEYS[2], renews and ends_ms or lease_ends_ms)
local has = 'fronts'
if not is_joint(joint, epoch) then
  if not vouched then -- until now the agent alone has renewed it
    agent_ms = lease_ends_ms
    redis.call('HSET', KEYS[1], 'agent:' .. id, agent_ms)
  end
  has = tonumber(agent_ms or '0') > tonumber(deadline_ms(0)) and 'agent' or 'gone'
end
redis.call('HSET', KEYS[1], 'vouched:' .. id, ends_ms .. ' ' .. ttl_ms)
if renews then
  attempt('zset', 'ZADD', KEYS[4], ends_ms, ARGV[6])
end
if ARGV[4] ~= '' then
  if redis.call('HEXISTS', KEYS[3], ARGV[4]) == 0 then
    local began_us = string.format('%.0f', clock_us() - 1000 * ARGV[5])
    redis.call('HSET', KEYS[3], ARGV[4], began_us .. ' ' .. ARGV[2])
  end
end
redis.call('PEXPIREAT', KEYS[3], ends_ms) -- a heartbeat that names no session keeps those that there are
if #KEYS > 5 and not list_again(KEYS[1], KEYS[6], ARGV[8], KEYS[7], 9) then
  token = redis.call('HGET', KEYS[1], 'token')
end
local is_same = ARGV[7] == '' or ARGV[7] == member
local master = redis.pcall('GET', KEYS[5])
local master_member = type(master) == 'string' and redis.call('HGET', KEYS[1], 'member:0')
return {'ok', epoch, token or '', has, is_same and '1' or '0', type(master) == 'string' and master or '', master_member or ''}
