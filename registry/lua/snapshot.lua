-- KEYS all keys that are read; ARGV of each command: the number of its words, the words; reply {'ok', a list of one reply a command ({'foreign'} for a key of another type)}; may be repeated: it changes nothing
local reads = {
  EXISTS = function(key) return redis.pcall('EXISTS', key) end,
  GET = function(key) return redis.pcall('GET', key) end,
  HEXISTS = function(key, field) return redis.pcall('HEXISTS', key, field) end,
  HGET = function(key, field) return redis.pcall('HGET', key, field) end,
  HGETALL = function(key) return redis.pcall('HGETALL', key) end,
  HMGET = function(key, ...) return redis.pcall('HMGET', key, ...) end,
  SISMEMBER = function(key, member) return redis.pcall('SISMEMBER', key, member) end,
  TIME = function() return redis.call('TIME') end,
  ZSCORE = function(key, member) return redis.pcall('ZSCORE', key, member) end,
}
local declared = {}
for i = 1, #KEYS do
  declared[KEYS[i]] = true
end
local replies, at = {}, 1
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  if words > 1 and not declared[ARGV[at + 2]] then
    return {'corrupt', ARGV[at + 2], 'is read and not among KEYS'}
  end
  local reply = reads[ARGV[at + 1]](unpack(ARGV, at + 2, at + words))
  if type(reply) == 'table' and reply.err then
    if not string.find(reply.err, 'WRONGTYPE', 1, true) then
      return reply
    end
    reply = {'foreign'}
  end
  replies[#replies + 1] = reply
  at = at + words + 1
end
return {'ok', replies}
