-- KEYS broker, broker's topics, brokers, deadlines, changes, schema, lease of each replica; ARGV broker name, epoch of id 0, expected token, change record, bounds of the feed, of each replica: id, deadline member; reply {'ok'}, {'fenced', epoch}, {'moved'} when the group has changed, {'alive', lease} or {'schema', key, number}; may be repeated: the second time answers 'fenced'; does without foreign changes
local bad = newer_schema(KEYS[6]) or foreign(KEYS[1], 'hash') or foreign(KEYS[2], 'hash') or foreign(KEYS[3], 'hash') or foreign(KEYS[4], 'zset')
if bad then return bad end
local FIRST_LEASE, FIRST_ARG = 7, 6
local owner, token = unpack(redis.call('HMGET', KEYS[1], 'epoch:0', 'token'))
if owner ~= ARGV[2] then
  return {'fenced', owner or '0'}
end
local known = {}
for i = 0, #KEYS - FIRST_LEASE do
  known[ARGV[FIRST_ARG + 2 * i]] = true
  if redis.call('EXISTS', KEYS[FIRST_LEASE + i]) == 1 then
    return {'alive', KEYS[FIRST_LEASE + i]}
  end
end
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  local id = string.match(field, '^epoch:(%d+)$') or string.match(field, '^member:(%d+)$')
  -- Anything else than an id in its one form is somebody else's, and goes with the group.
  local is_id = id and (id == '0' or string.match(id, '^[1-9]')) and not greater(id, '9223372036854775807')
  if is_id and not known[id] then
    return {'moved'}
  end
end
if (token or '') ~= ARGV[3] then
  return {'moved'}
end
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('HDEL', KEYS[3], ARGV[1])
for i = 0, #KEYS - FIRST_LEASE do
  redis.call('ZREM', KEYS[4], ARGV[FIRST_ARG + 2 * i + 1])
end
announce(KEYS[5], ARGV[5], ARGV[4])
return {'ok'}
