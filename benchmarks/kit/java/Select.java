import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.impl.producer.TopicPublishInfo;
import org.apache.rocketmq.client.latency.MQFaultStrategy;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Times RocketMQ's own choice of a queue: args BROKERS QUEUES (of each) ISOLATED (brokers).
 *
 * <p>For each line "quiet COUNT" or "faulty COUNT" on standard input it answers nanoseconds a selection.
 */
public final class Select {
    private static final int WARM_UP = 2_000_000;
    private static final long SLOW_MS = 20_000;

    private static int sink;

    public static void main(String[] args) throws Exception {
        int brokers = Integer.parseInt(args[0]);
        TopicPublishInfo info = publishInfo(brokers, Integer.parseInt(args[1]));
        MQFaultStrategy quiet = strategy();
        MQFaultStrategy faulty = strategy();
        int isolated = Integer.parseInt(args[2]);
        measure(quiet, info, WARM_UP);
        isolate(faulty, isolated);
        measure(faulty, info, WARM_UP);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            isolate(faulty, isolated);
            System.out.println(measure(words[0].equals("quiet") ? quiet : faulty, info, Integer.parseInt(words[1])));
        }
        System.err.print(sink == 1 ? " " : ""); // what is never used may never be computed
    }

    private static TopicPublishInfo publishInfo(int brokers, int queues) {
        List<MessageQueue> all = new ArrayList<>();
        for (int broker = 0; broker < brokers; broker++) {
            for (int queue = 0; queue < queues; queue++) {
                all.add(new MessageQueue("orders", name(broker), queue));
            }
        }
        TopicPublishInfo info = new TopicPublishInfo();
        info.setMessageQueueList(all);
        info.setHaveTopicRouterInfo(true);
        return info;
    }

    private static MQFaultStrategy strategy() {
        ClientConfig config = new ClientConfig();
        config.setSendLatencyEnable(true);
        return new MQFaultStrategy(config, name -> "127.0.0.1:10911", (address, timeout) -> true);
    }

    private static void isolate(MQFaultStrategy strategy, int brokers) {
        for (int broker = 0; broker < brokers; broker++) {
            strategy.updateFaultItem(name(broker), SLOW_MS, false, true);
        }
    }

    private static double measure(MQFaultStrategy strategy, TopicPublishInfo info, int count) {
        long begin = System.nanoTime();
        for (int i = 0; i < count; i++) {
            sink ^= strategy.selectOneMessageQueue(info, null, false).getQueueId();
        }
        return (System.nanoTime() - begin) / (double) count;
    }

    private static String name(int broker) {
        return String.format("broker-%03d", broker);
    }
}
