-- KEYS broker, lease, deadlines, changes; ARGV broker id, epoch, expected token ('' = any), lease value, TTL in ms, deadline member, member, cluster, data version, change record, feed length in entries; reply {'ok'}, {'fenced', epoch} or {'moved', token}; may be repeated: it announces only what changed
local bad = foreign(KEYS[1], 'hash') or foreign(KEYS[2], 'string') or foreign(KEYS[3], 'zset') or foreign(KEYS[4], 'stream')
if bad then
  return bad
end
local member = 'member:' .. ARGV[1]
local owner, token, known, cluster = unpack(redis.call('HMGET', KEYS[1], 'epoch:' .. ARGV[1], 'token', member, 'cluster'))
if owner ~= ARGV[2] then
  return {'fenced', owner or '0'}
end
if ARGV[3] ~= '' and token ~= ARGV[3] then
  return {'moved', token or ''}
end
local lease = redis.call('GET', KEYS[2])
redis.call('SET', KEYS[2], ARGV[4], 'PX', ARGV[5])
redis.call('ZADD', KEYS[3], deadline_ms(ARGV[5]), ARGV[6])
redis.call('HSET', KEYS[1], member, ARGV[7], 'cluster', ARGV[8])
if ARGV[9] ~= '' then
  redis.call('HSET', KEYS[1], 'version', ARGV[9])
end
if lease ~= ARGV[4] or known ~= ARGV[7] or cluster ~= ARGV[8] then
  announce(KEYS[4], ARGV[11], ARGV[10])
end
return {'ok'}
