-- KEYS broker, lease, sessions, deadlines, changes, fronts; ARGV broker id, address, deadline member, change record, bounds of the feed, epoch that stands in the record, why ('closed' = these connections were, 'goodbye' = the broker says that it ends, 'dead' = it was asked, and does not answer), ms for which that was found out ('dead': who connected meanwhile lives), '1' = another connection to this front has the broker, or is about to register it, then sessions of this front to remove; reply {'ok'} = the lease was ended, {'held'} = another connection or an agent has the broker, {'gone'} = there was no such lease, or {'other', epoch} = look again; may be repeated; does without foreign deadlines, changes and fronts
local bad = foreign(KEYS[1], 'hash') or foreign(KEYS[2], 'string') or foreign(KEYS[3], 'hash')
if bad then return bad end
local id, why, FIRST_SESSION = ARGV[1], ARGV[7], 10
local owner, address = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+) (.+)$')
if address == ARGV[2] and owner ~= ARGV[6] then
  return {'other', owner}
end

-- What a broker says as it ends holds for its connections that began before the newest of those it says it on.
local newest_us
local ours = {}
for a = FIRST_SESSION, #ARGV do
  ours[ARGV[a]] = true
  local began_us = string.match(redis.call('HGET', KEYS[3], ARGV[a]) or '', '^%d+')
  if began_us and (not newest_us or tonumber(began_us) > tonumber(newest_us)) then
    newest_us = began_us
  end
end
local now_ms, held, ended, connected_ms = tonumber(deadline_ms(0)), ARGV[9] == '1', {}, 0
local sessions = redis.call('HGETALL', KEYS[3])
for i = 1, #sessions, 2 do
  local session = sessions[i]
  local began_us, at = string.match(sessions[i + 1], '^(%d+) (.+)$')
  local lives_ms = attempt('zset', 'ZSCORE', KEYS[6], string.match(session, '^[^.]*'))
  local is_older = why == 'goodbye' and (not newest_us or not began_us or tonumber(began_us) <= tonumber(newest_us))
  if ours[session] or is_older and at == ARGV[2] then
    ended[#ended + 1] = session
  elseif at == ARGV[2] and lives_ms and tonumber(lives_ms) > now_ms then
    held = true
    connected_ms = math.max(connected_ms, math.floor(tonumber(began_us) / 1000))
  end
end
if #ended > 0 then redis.call('HDEL', KEYS[3], unpack(ended)) end
if held and (why ~= 'dead' or now_ms - connected_ms < tonumber(ARGV[8])) then
  return {'held'}
end
if address ~= ARGV[2] then
  return {'gone'}
end

local agent, vouched = 'agent:' .. id, 'vouched:' .. id
local joint, agent_ms, vouched_ms = unpack(redis.call('HMGET', KEYS[1], 'joint:' .. id, agent, vouched))
local has_agent = not is_joint(joint, owner) and (not vouched_ms or tonumber(agent_ms or '0') > now_ms)
if has_agent then
  if agent_ms and why ~= 'dead' then -- from now on the agent alone vouches
    redis.call('HDEL', KEYS[1], vouched, agent)
    redis.call('PEXPIREAT', KEYS[2], agent_ms)
    attempt('zset', 'ZADD', KEYS[4], agent_ms, ARGV[3])
  end
  return {'held'}
end
redis.call('HDEL', KEYS[1], 'member:' .. id, 'version:' .. id, vouched, agent)
redis.call('DEL', KEYS[2])
attempt('zset', 'ZREM', KEYS[4], ARGV[3])
announce(KEYS[5], ARGV[5], ARGV[4])
return {'ok'}
