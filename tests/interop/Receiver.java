import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageExt;

/** Prints the messages of a topic whose tags fit, one a line: all that a sender has set, and what its key says of it. */
public class Receiver {
    public static void main(String[] arguments) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("of-" + arguments[1]);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setPollNameServerInterval(1_000);
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments[1], arguments[2]);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(Receiver::print);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        System.out.println("started");
    }

    private static synchronized void print(MessageExt message) {
        String key = message.getMsgId();
        String text = String.join("\u0001", key, message.getKeys(), message.getTags(), message.getProperty("origin"),
            MessageClientIDSetter.getIPStrFromID(key), "" + MessageClientIDSetter.getPidFromID(key),
            "" + MessageClientIDSetter.getNearlyTimeFromID(key).getTime(), "" + message.getBornTimestamp());
        System.out.println("message " + base64(text.getBytes(StandardCharsets.UTF_8)) + " " + base64(message.getBody()));
    }

    private static String base64(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }
}
