import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Producers, consumers and mqadmin in one process: a command a line, words between tabs; prints a line of JSON an event. */
public class Peer {
    private static final PrintStream OUT = System.out;
    private static final Map<String, DefaultMQProducer> PRODUCERS = new ConcurrentHashMap<>();
    private static final Map<String, DefaultMQPushConsumer> CONSUMERS = new ConcurrentHashMap<>();
    private static final int POLL_MS = 1_000;
    /** More than the default: a master waits for its slave, which on a busy machine takes its time. */
    private static final int SEND_MS = 10_000;

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        say("", "ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            try {
                obey(words);
            } catch (Throwable error) {
                say(words[1], "error", "text", String.valueOf(error));
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void obey(String[] words) throws Exception {
        String id = words[1];
        switch (words[0]) {
            case "producer": produce(id, words[2]); break;
            case "send": new Thread(() -> send(id, words[2], words[3], Integer.parseInt(words[4]), Integer.parseInt(words[5]), Long.parseLong(words[6]))).start(); break;
            case "consumer": consume(id, words[2], words[3], words[4], Boolean.parseBoolean(words[5])); break;
            case "stop": stop(id); break;
            case "admin": say(id, "said", "text", admin(Arrays.copyOfRange(words, 2, words.length))); break;
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    private static void produce(String id, String nameServers) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("group-" + id);
        producer.setNamesrvAddr(nameServers);
        producer.setInstanceName(id);
        producer.setPollNameServerInterval(POLL_MS);
        producer.setSendMsgTimeout(SEND_MS);
        producer.start();
        PRODUCERS.put(id, producer);
        say(id, "started");
    }

    private static void send(String id, String topic, String mode, int first, int count, long pauseMs) {
        DefaultMQProducer producer = PRODUCERS.get(id);
        CountDownLatch answers = new CountDownLatch(mode.equals("async") ? count : 0);
        try {
            for (int number = first; number < first + count; number++) {
                Message message = new Message(topic, (id + "-" + number).getBytes(StandardCharsets.UTF_8));
                sendOne(producer, id, message, mode, number, answers);
                Thread.sleep(pauseMs);
            }
            answers.await(30, TimeUnit.SECONDS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        say(id, "done");
    }

    private static void sendOne(DefaultMQProducer producer, String id, Message message, String mode, int number, CountDownLatch answers) {
        try {
            switch (mode) {
                case "sync": sent(id, producer.send(message)); break;
                case "oneway": producer.sendOneway(message); say(id, "sent"); break;
                case "ordered": sent(id, producer.send(message, (queues, m, key) -> queues.get((int) key % queues.size()), 1)); break;
                default: producer.send(message, new SendCallback() {
                    public void onSuccess(SendResult result) {
                        sent(id, result);
                        answers.countDown();
                    }

                    public void onException(Throwable error) {
                        say(id, "failed", "text", String.valueOf(error));
                        answers.countDown();
                    }
                });
            }
        } catch (Exception error) {
            say(id, "failed", "text", String.valueOf(error));
        }
    }

    private static void sent(String id, SendResult result) {
        say(id, "sent", "status", result.getSendStatus().name(), "broker", result.getMessageQueue().getBrokerName());
    }

    private static void consume(String id, String nameServers, String group, String topic, boolean ordered) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServers);
        consumer.setInstanceName(id);
        consumer.setPollNameServerInterval(POLL_MS);
        consumer.setHeartbeatBrokerInterval(POLL_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        if (ordered) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                received(id, messages);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                received(id, messages);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        CONSUMERS.put(id, consumer);
        say(id, "started");
    }

    private static void received(String id, List<MessageExt> messages) {
        for (MessageExt message : messages) {
            String body = new String(message.getBody(), StandardCharsets.UTF_8);
            say(id, "received", "body", body, "broker", String.valueOf(message.getBrokerName()));
        }
    }

    private static void stop(String id) {
        DefaultMQProducer producer = PRODUCERS.remove(id);
        if (producer != null) {
            producer.shutdown();
        }
        DefaultMQPushConsumer consumer = CONSUMERS.remove(id);
        if (consumer != null) {
            consumer.shutdown();
        }
        say(id, "stopped");
    }

    private static String admin(String[] arguments) throws Exception {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream before = System.out;
        PrintStream both = new PrintStream(said, true, "UTF-8");
        System.setOut(both);
        System.setErr(both);
        try {
            MQAdminStartup.main(arguments);
        } finally {
            System.setOut(before);
            System.setErr(before);
        }
        return said.toString("UTF-8");
    }

    private static void say(String id, String event, String... facts) {
        StringBuilder line = new StringBuilder("{\"id\":" + quoted(id) + ",\"event\":" + quoted(event));
        for (int place = 0; place < facts.length; place += 2) {
            line.append(",").append(quoted(facts[place])).append(":").append(quoted(facts[place + 1]));
        }
        synchronized (OUT) {
            OUT.println(line.append("}"));
            OUT.flush();
        }
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char one : text.toCharArray()) {
            if (one == '"' || one == '\\' || one < ' ' || one > '~') {
                quoted.append(String.format("\\u%04x", (int) one));
            } else {
                quoted.append(one);
            }
        }
        return quoted.append('"').toString();
    }
}
