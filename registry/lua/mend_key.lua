-- KEYS key, schema; ARGV type it must have, TTL in ms that it shall have if it has none ('' = it shall have none); reply {'ok'} or {'schema', key, number}; may be repeated
local bad = newer_schema(KEYS[2]) or foreign(KEYS[1], ARGV[1])
if bad then return bad end
if ARGV[2] == '' then
  redis.call('PERSIST', KEYS[1])
elseif redis.call('PTTL', KEYS[1]) == -1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {'ok'}
