import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** Asks a name server for the lists that no command of mqadmin asks for; it has none of them, and that is well. */
public class Lists {
    private static final long MS = 10_000;

    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("lists");
        producer.setNamesrvAddr(arguments[0]);
        producer.start();
        MQClientAPIImpl api = producer.getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl();
        ask(() -> api.getKVListByNamespace("ns", MS));
        ask(() -> api.getTopicsByCluster("DefaultCluster", MS));
        ask(() -> api.getSystemTopicList(MS));
        ask(() -> api.getUnitTopicList(false, MS));
        ask(() -> api.getHasUnitSubTopicList(false, MS));
        ask(() -> api.getHasUnitSubUnUnitTopicList(false, MS));
        Runtime.getRuntime().halt(0);
    }

    private interface Question {
        Object ask() throws Exception;
    }

    private static void ask(Question question) {
        try {
            question.ask();
        } catch (Exception error) {
            System.err.println(error);
        }
    }
}
