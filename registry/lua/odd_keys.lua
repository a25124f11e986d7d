-- KEYS keys to look at; ARGV of each key: the type it should have, '1' = it should have a TTL; reply {'ok', of each key that is otherwise: its number, type and TTL in ms (-1 = none) ...}; may be repeated: it changes nothing
local reply = {'ok'}
for i = 1, #KEYS do
  local key = KEYS[i]
  local kind = redis.call('TYPE', key).ok
  local left_ms = redis.call('PTTL', key)
  if left_ms ~= -2 and (kind ~= ARGV[2 * i - 1] or (left_ms >= 0) ~= (ARGV[2 * i] == '1')) then
    reply[#reply + 1] = i
    reply[#reply + 1] = kind
    reply[#reply + 1] = left_ms
  end
end
return reply
