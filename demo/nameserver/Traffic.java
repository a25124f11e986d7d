import java.nio.charset.StandardCharsets;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends messages and receives them: arguments are the name servers, the topic, and messages per second.
 *
 * <p>Prints `sent ID BROKER`, `failed ID WHY` and `received ID BROKER`. A line of input ends the sending (then it prints
 * `done`), and the end of the input the process.
 */
public class Traffic {
    /** Clients ask for routes and greet brokers each second; the default is 30 s. */
    private static final int EACH_MS = 1_000;
    /** Of a message, with all attempts; the default is 3 s. */
    private static final int SEND_MS = 10_000;
    /** So that there is time for the other broker; by default one attempt may take as long as all. */
    private static final int ATTEMPT_MS = 2_000;
    /** A broker that hangs keeps only some of the senders waiting. */
    private static final int SENDERS = 32;

    public static void main(String[] arguments) throws Exception {
        DefaultMQPushConsumer consumer = consumer(arguments[0], arguments[1]);
        DefaultMQProducer producer = producer(arguments[0]);
        ScheduledExecutorService senders = Executors.newScheduledThreadPool(SENDERS);
        AtomicInteger numbers = new AtomicInteger();
        long periodUs = 1_000_000 / Integer.parseInt(arguments[2]);
        Runnable next = () -> {
            int number = numbers.getAndIncrement();
            senders.execute(() -> send(producer, arguments[1], number));
        };
        var sending = Executors.newSingleThreadScheduledExecutor().scheduleAtFixedRate(next, 0, periodUs, TimeUnit.MICROSECONDS);
        System.in.read();
        sending.cancel(false);
        senders.shutdown();
        senders.awaitTermination(1, TimeUnit.MINUTES);
        say("done", "", "");
        while (System.in.read() >= 0) {
            // until the input ends
        }
        Runtime.getRuntime().halt(0);
    }

    private static DefaultMQProducer producer(String nameServers) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("demo-producers");
        producer.setNamesrvAddr(nameServers);
        producer.setInstanceName("producer");
        producer.setPollNameServerInterval(EACH_MS);
        producer.setHeartbeatBrokerInterval(EACH_MS);
        producer.setSendMsgTimeout(SEND_MS);
        producer.setSendMsgMaxTimeoutPerRequest(ATTEMPT_MS);
        producer.start();
        return producer;
    }

    private static void send(DefaultMQProducer producer, String topic, int number) {
        String id = String.valueOf(number);
        try {
            SendResult result = producer.send(new Message(topic, id.getBytes(StandardCharsets.UTF_8)));
            say("sent", id, result.getMessageQueue().getBrokerName());
        } catch (Exception error) {
            say("failed", id, String.valueOf(error).replace('\n', ' '));
        }
    }

    private static DefaultMQPushConsumer consumer(String nameServers, String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("demo-consumers");
        consumer.setNamesrvAddr(nameServers);
        consumer.setInstanceName("consumer");
        consumer.setPollNameServerInterval(EACH_MS);
        consumer.setHeartbeatBrokerInterval(EACH_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                say("received", new String(message.getBody(), StandardCharsets.UTF_8), message.getBrokerName());
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    private static synchronized void say(String what, String id, String rest) {
        System.out.println((what + " " + id + " " + rest).strip());
        System.out.flush();
    }
}
