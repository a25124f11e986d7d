import java.util.concurrent.atomic.LongAdder;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Sends as fast as a broker takes it, on several threads; prints the messages of each second. */
public class Load {
    public static void main(String[] arguments) throws Exception {
        int threads = Integer.parseInt(arguments[1]);
        DefaultMQProducer producer = new DefaultMQProducer("load");
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        byte[] body = new byte[Integer.parseInt(arguments[2])];
        LongAdder sent = new LongAdder(), failed = new LongAdder();
        for (int number = 0; number < threads; number++) {
            Thread thread = new Thread(() -> {
                while (true) {
                    try {
                        producer.send(new Message("TopicTest", body));
                        sent.increment();
                    } catch (Exception error) {
                        failed.increment();
                    }
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
        while (true) {
            Thread.sleep(1_000);
            System.out.println(sent.sumThenReset() + " " + failed.sumThenReset());
        }
    }
}
