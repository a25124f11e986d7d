-- KEYS namespace, changes, schema; ARGV key, change record, bounds of the feed; reply {'ok', '1' = there was one} or {'schema', key, number}; may be repeated; does without foreign changes
local bad = newer_schema(KEYS[3]) or foreign(KEYS[1], 'hash')
if bad then return bad end
local removed = redis.call('HDEL', KEYS[1], ARGV[1])
if removed == 1 then
  announce(KEYS[2], ARGV[3], ARGV[2])
end
return {'ok', removed}
