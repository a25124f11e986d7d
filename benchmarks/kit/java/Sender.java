import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.impl.producer.TopicPublishInfo;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Sends messages with RocketMQ's own producer as it is by default: args NAME_SERVER TOPIC THREADS PAUSE_MS.
 *
 * <p>Prints "sent BEGIN END" or "failed BEGIN END" for each message, and "route AT BROKER,BROKER" whenever the brokers in
 * the producer's own route are others; times in ns of the monotonic clock.
 */
public final class Sender {
    private static final byte[] BODY = new byte[128];
    private static final int LOOK_MS = 20;

    @SuppressWarnings("deprecation") // there is no other way to its route
    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("senders");
        producer.setNamesrvAddr(args[0]);
        producer.start();
        for (int number = 0; number < Integer.parseInt(args[2]); number++) {
            Thread thread = new Thread(() -> send(producer, args[1], Integer.parseInt(args[3])));
            thread.setDaemon(true);
            thread.start();
        }
        String before = "";
        while (true) {
            String now = brokers(producer.getDefaultMQProducerImpl().getTopicPublishInfoTable().get(args[1]));
            if (!now.equals(before)) {
                System.out.println("route " + System.nanoTime() + " " + now);
                before = now;
            }
            Thread.sleep(LOOK_MS);
        }
    }

    private static void send(DefaultMQProducer producer, String topic, int pauseMs) {
        while (true) {
            long begin = System.nanoTime();
            String how = "sent";
            try {
                producer.send(new Message(topic, BODY));
            } catch (Exception error) {
                how = "failed";
            }
            System.out.println(how + " " + begin + " " + System.nanoTime());
            try {
                Thread.sleep(pauseMs);
            } catch (InterruptedException error) {
                return;
            }
        }
    }

    private static String brokers(TopicPublishInfo info) {
        Set<String> names = new TreeSet<>();
        if (info != null) {
            for (MessageQueue queue : info.getMessageQueueList()) {
                names.add(queue.getBrokerName());
            }
        }
        return String.join(",", names);
    }
}
