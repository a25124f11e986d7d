-- KEYS changes, schema; ARGV change record, bounds of the feed; reply {'ok'} or {'schema', key, number}; may be repeated: then there are two records; does without foreign changes
local bad = newer_schema(KEYS[2])
if bad then return bad end
announce(KEYS[1], ARGV[2], ARGV[1])
return {'ok'}
