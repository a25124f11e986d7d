import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentMap;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.impl.producer.TopicPublishInfo;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Clients that keep one topic up to date, as RocketMQ's producer does: args NAME_SERVER TOPIC CLIENTS POLL_MS.
 *
 * <p>They start one after the other, so that their polls are spread over POLL_MS. Prints "route NUMBER NS BROKER=QUEUES,..."
 * whenever a client's own route is another one (NS of the monotonic clock), "ready" when all have begun, and for each line
 * COUNT on standard input "time NS": how long one lookup in a client's own table takes.
 */
public final class Watch {
    private static final int LOOK_MS = 1;

    private static int sink;

    @SuppressWarnings("deprecation") // there is no other way to a producer's route
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int clients = Integer.parseInt(args[2]);
        int pollMs = Integer.parseInt(args[3]);
        List<ConcurrentMap<String, TopicPublishInfo>> tables = new ArrayList<>();
        for (int number = 0; number < clients; number++) {
            DefaultMQProducer producer = new DefaultMQProducer("watchers-" + number);
            producer.setNamesrvAddr(args[0]);
            producer.setInstanceName("watcher-" + number);
            producer.setPollNameServerInterval(pollMs);
            producer.start();
            tables.add(producer.getDefaultMQProducerImpl().getTopicPublishInfoTable());
            tables.get(number).putIfAbsent(topic, new TopicPublishInfo());
            producer.getDefaultMQProducerImpl().getMqClientFactory().updateTopicRouteInfoFromNameServer(topic);
            Thread.sleep(pollMs / clients);
        }
        System.out.println("ready");
        Thread thread = new Thread(() -> answer(tables.get(0), topic));
        thread.setDaemon(true);
        thread.start();
        String[] before = new String[clients];
        while (true) {
            for (int number = 0; number < clients; number++) {
                String now = queues(tables.get(number).get(topic));
                if (!now.equals(before[number])) {
                    System.out.println("route " + number + " " + System.nanoTime() + " " + now);
                    before[number] = now;
                }
            }
            Thread.sleep(LOOK_MS);
        }
    }

    private static String queues(TopicPublishInfo info) {
        TreeMap<String, Integer> counts = new TreeMap<>();
        for (MessageQueue queue : info.getMessageQueueList()) {
            counts.merge(queue.getBrokerName(), 1, Integer::sum);
        }
        return counts.entrySet().stream().map(one -> one.getKey() + "=" + one.getValue()).collect(Collectors.joining(","));
    }

    private static void answer(ConcurrentMap<String, TopicPublishInfo> table, String topic) {
        try (BufferedReader commands = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = commands.readLine(); line != null; line = commands.readLine()) {
                int count = Integer.parseInt(line);
                long begin = System.nanoTime();
                for (int i = 0; i < count; i++) {
                    sink ^= table.get(topic).getMessageQueueList().size();
                }
                System.out.println("time " + (System.nanoTime() - begin) / (double) count);
            }
        } catch (java.io.IOException error) {
            throw new IllegalStateException(error);
        }
        System.exit(sink == 1 ? 2 : 0); // what is never used may never be computed
    }
}
