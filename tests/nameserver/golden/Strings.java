import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Map;
import java.util.Random;

/**
 * Prints how fastjson writes strings as RocketMQ's name server has it write them: the first column is the
 * dialect; then a run of characters with the way in which each of them is written, or a text and its JSON.
 * java -cp '~/.cache/sharedroutes/rocketmq/5.3.3/*' Strings.java >fastjson-1.2.83.txt
 */
public class Strings {
    private static final SerializerFeature[] STANDARD = {
        SerializerFeature.BrowserCompatible,
        SerializerFeature.QuoteFieldNames,
        SerializerFeature.SkipTransientField,
        SerializerFeature.MapSortField,
    };
    private static final String ODD = "\0\b\t\n\u000b\f\r\u001f \"'/<>&\\a]~\u007f\u0080\u009f\u00a0\u00e9\u2028\u2029\u65e5\uff21";

    static String json(String dialect, Object value) {
        SerializerFeature[] features = dialect.equals("STANDARD") ? STANDARD : new SerializerFeature[0];
        return JSON.toJSONString(value, features);
    }

    static String way(String dialect, char sign) {
        String json = json(dialect, "a" + sign + "b");
        String written = json.substring(2, json.length() - 2);
        if (written.equals(String.valueOf(sign))) {
            return "itself";
        }
        return written.equals(String.format("\\u%04X", (int) sign)) ? "unicode" : written;
    }

    static String hexadecimal(String text) {
        StringBuilder digits = new StringBuilder();
        for (byte one : text.getBytes(StandardCharsets.UTF_8)) {
            digits.append(String.format("%02x", one));
        }
        return digits.toString();
    }

    public static void main(String[] arguments) {
        for (String dialect : new String[] {"STANDARD", "LEGACY"}) {
            int first = 0;
            for (int sign = 0; sign < 0x10000; sign++) {
                String way = way(dialect, (char) sign);
                int next = sign == 0xd7ff ? 0xe000 : sign + 1;
                if (next == 0x10000 || next != sign + 1 || !way(dialect, (char) next).equals(way)) {
                    System.out.printf("%s run %04x %04x %s%n", dialect, first, sign, way);
                    first = next;
                }
                sign = next - 1;
            }
            Random random = new Random(1);
            for (int count = 0; count < 40; count++) {
                StringBuilder text = new StringBuilder();
                for (int length = random.nextInt(12); length > 0; length--) {
                    if (random.nextInt(8) == 0) {
                        text.appendCodePoint(0x1f600 + random.nextInt(50));
                    } else {
                        text.append(ODD.charAt(random.nextInt(ODD.length())));
                    }
                }
                String value = json(dialect, text.toString());
                Map<String, Integer> key = Collections.singletonMap(text.toString(), 1);
                if (!json(dialect, key).equals("{" + value + ":1}")) {
                    throw new AssertionError(value);
                }
                System.out.printf("%s text %s %s%n", dialect, hexadecimal(text.toString()), hexadecimal(value));
            }
        }
    }
}
