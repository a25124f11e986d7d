import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.producer.Producer;

/** Sends ten messages through a proxy and receives them, over gRPC; prints the bodies. */
public class Grpc {
    private static final int COUNT = 10;

    public static void main(String[] arguments) throws Exception {
        String endpoints = arguments[0], topic = arguments[1], group = arguments[2];
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        ClientConfiguration configuration = ClientConfiguration.newBuilder().setEndpoints(endpoints).enableSsl(false).build();
        CountDownLatch left = new CountDownLatch(COUNT);
        provider.newPushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(group)
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL))
            .setMessageListener(message -> {
                System.out.println("received " + StandardCharsets.UTF_8.decode(message.getBody()));
                left.countDown();
                return ConsumeResult.SUCCESS;
            }).build();
        Producer producer = provider.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
        for (int number = 0; number < COUNT; number++) {
            byte[] body = ("grpc-" + number).getBytes(StandardCharsets.UTF_8);
            producer.send(provider.newMessageBuilder().setTopic(topic).setBody(body).build());
        }
        boolean all = left.await(60, TimeUnit.SECONDS);
        Runtime.getRuntime().halt(all ? 0 : 1);
    }
}
