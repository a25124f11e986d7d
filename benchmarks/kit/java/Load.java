import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Sends requests to a name server from one thread, and notes how long each answer takes.
 *
 * <p>For each line "PORT CONNECTIONS RATE SECONDS FILE" on standard input it answers "COUNT P50 P99 P99.9 MAX", times
 * in ns. FILE has frames, each with an opaque of ten digits; the connections send them in turn, and each waits for its
 * answer before it sends the next. RATE requests a second are sent by all together; 0 = as many as they can. An answer
 * must have the opaque of its request, code 0, and the length of the first answer to the same frame.
 *
 * <p>With the argument "answer FILE" it is what it can be compared with instead: a server that does nothing. It prints
 * its port, and answers every request with the frame in FILE.
 */
public final class Load {
    private static final byte[] OPAQUE = "\"opaque\":".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] SUCCESS = "\"code\":0".getBytes(StandardCharsets.US_ASCII);
    private static final int FIRST_OPAQUE = 1_000_000_000;
    private static final int DIGITS = 10;
    private static final int BUFFER_BYTES = 65_536;
    private static final long SECOND_NS = 1_000_000_000L;
    private static final long ANSWER_NS = 60 * SECOND_NS;

    public static void main(String[] args) throws IOException {
        if (args.length > 0) {
            answer(frames(Path.of(args[1])).get(0));
            return;
        }
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ", 5);
            Load load = new Load(Double.parseDouble(words[2]), frames(Path.of(words[4])));
            load.run(Integer.parseInt(words[0]), Integer.parseInt(words[1]), Double.parseDouble(words[3]));
            System.out.println(load.times);
        }
    }

    private static List<Frame> frames(Path file) throws IOException {
        ByteBuffer content = ByteBuffer.wrap(Files.readAllBytes(file));
        List<Frame> frames = new ArrayList<>();
        while (content.hasRemaining()) {
            byte[] frame = new byte[4 + content.getInt(content.position())];
            content.get(frame);
            frames.add(new Frame(frame));
        }
        return frames;
    }

    private final Times times = new Times();
    private final double rate;
    private final List<Frame> frames;
    private final List<Peer> peers = new ArrayList<>();
    private int nextFrame;
    private int nextOpaque = FIRST_OPAQUE;
    private long beginNs;
    private long endNs;
    private int waiting;

    private Load(double rate, List<Frame> frames) {
        this.rate = rate;
        this.frames = frames;
    }

    private void run(int port, int connections, double seconds) throws IOException {
        try (Selector selector = Selector.open()) {
            for (int number = 0; number < connections; number++) {
                peers.add(new Peer(port, selector));
            }
            beginNs = System.nanoTime();
            endNs = beginNs + (long) (seconds * SECOND_NS);
            for (int number = 0; number < connections; number++) {
                peers.get(number).dueNs = rate == 0 ? beginNs : beginNs + (long) (number / rate * SECOND_NS);
            }
            for (long now = beginNs; now < endNs || waiting > 0; now = System.nanoTime()) {
                if (now > endNs + ANSWER_NS) {
                    throw new IOException(waiting + " requests have no answer");
                }
                sendDue(now);
                selector.select(key -> ((Peer) key.attachment()).read(), 1);
            }
        } finally {
            for (Peer peer : peers) {
                peer.channel.close();
            }
        }
    }

    /** Sends what is due; without a rate each peer sends by itself from its first answer on. */
    private void sendDue(long now) {
        if (now >= endNs || (rate == 0 && waiting == peers.size())) {
            return;
        }
        for (Peer peer : peers) {
            if (!peer.waits && peer.dueNs <= now) {
                peer.send(now);
            }
        }
    }

    /** A connection; from a frame to its answer it waits. */
    private final class Peer {
        private final SocketChannel channel;
        private final ByteBuffer out;
        private ByteBuffer in = ByteBuffer.allocateDirect(BUFFER_BYTES);
        private Frame frame;
        private int opaque;
        private boolean waits;
        private long sentNs;
        private long idleNs;
        private long dueNs;

        private Peer(int port, Selector selector) throws IOException {
            channel = SocketChannel.open(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
            channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
            channel.configureBlocking(false);
            channel.register(selector, SelectionKey.OP_READ, this);
            out = ByteBuffer.allocateDirect(frames.stream().mapToInt(one -> one.bytes.length).max().orElseThrow());
        }

        /** Sends the next frame; what had to wait for the answer before it is late from when it was due. */
        private void send(long now) {
            frame = frames.get(nextFrame);
            nextFrame = nextFrame + 1 == frames.size() ? 0 : nextFrame + 1;
            opaque = nextOpaque++;
            out.clear();
            out.put(frame.bytes).flip();
            frame.write(out, opaque);
            sentNs = idleNs > dueNs ? dueNs : now;
            dueNs = rate == 0 ? now : dueNs + (long) (peers.size() / rate * SECOND_NS);
            waits = true;
            waiting++;
            try {
                while (out.hasRemaining()) {
                    channel.write(out);
                }
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }

        private void read() {
            try {
                if (channel.read(in) < 0) {
                    throw new IllegalStateException("the server has closed a connection");
                }
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
            if (in.position() < 8 || in.position() < 4 + in.getInt(0)) {
                if (!in.hasRemaining()) {
                    in = ByteBuffer.allocateDirect(2 * in.capacity()).put(in.flip());
                }
                return;
            }
            frame.check(in, opaque);
            in.clear();
            long now = System.nanoTime();
            idleNs = now;
            waits = false;
            waiting--;
            if (now < endNs) {
                times.add(now - sentNs);
                if (rate == 0) {
                    dueNs = now;
                    send(now);
                }
            }
        }
    }

    /** A request, and what is known of the answers to it. */
    private static final class Frame {
        private final byte[] bytes;
        private final int place;
        private int answerBytes;
        private int opaquePlace;
        private int codePlace;

        private Frame(byte[] bytes) {
            this.bytes = bytes;
            place = find(ByteBuffer.wrap(bytes), OPAQUE, bytes.length) + OPAQUE.length;
        }

        private void write(ByteBuffer out, int opaque) {
            int rest = opaque;
            for (int digit = place + DIGITS - 1; digit >= place; digit--) {
                out.put(digit, (byte) ('0' + rest % 10));
                rest /= 10;
            }
        }

        private void check(ByteBuffer answer, int opaque) {
            int end = 8 + (answer.getInt(4) & 0xFFFFFF);
            if (answerBytes == 0) {
                answerBytes = answer.position();
            }
            if (!isAt(answer, OPAQUE, opaquePlace)) {
                opaquePlace = find(answer, OPAQUE, end);
            }
            if (!isAt(answer, SUCCESS, codePlace)) {
                codePlace = find(answer, SUCCESS, end);
            }
            int found = 0;
            for (int digit = opaquePlace + OPAQUE.length; digit < opaquePlace + OPAQUE.length + DIGITS; digit++) {
                found = 10 * found + answer.get(digit) - '0';
            }
            byte after = answer.get(codePlace + SUCCESS.length);
            if (found != opaque || (after != ',' && after != '}') || answerBytes != answer.position()) {
                throw wrong(answer);
            }
        }

        private static int find(ByteBuffer in, byte[] what, int end) {
            for (int start = 8; start + what.length <= end; start++) {
                if (isAt(in, what, start)) {
                    return start;
                }
            }
            throw wrong(in);
        }

        private static IllegalStateException wrong(ByteBuffer answer) {
            byte[] text = new byte[Math.min(answer.position(), 1_000)];
            answer.get(0, text);
            return new IllegalStateException("a wrong answer: " + new String(text, StandardCharsets.ISO_8859_1));
        }

        private static boolean isAt(ByteBuffer in, byte[] what, int start) {
            for (int index = 0; index < what.length; index++) {
                if (in.get(start + index) != what[index]) {
                    return false;
                }
            }
            return true;
        }
    }

    /** Counts times in buckets that are less than 1 % wide. */
    private static final class Times {
        private static final int BITS = 7;
        private final long[] counts = new long[64 << BITS];
        private long count;
        private long maxNs;

        private void add(long ns) {
            int shift = Math.max(0, 63 - Long.numberOfLeadingZeros(ns | 1) - BITS);
            counts[(shift << BITS) + (int) (ns >> shift)]++;
            count++;
            maxNs = Math.max(maxNs, ns);
        }

        private long percentile(double share) {
            long rest = (long) Math.ceil(share * count);
            for (int bucket = 0; bucket < counts.length; bucket++) {
                rest -= counts[bucket];
                if (rest <= 0) {
                    int shift = Math.max(0, (bucket >> BITS) - 1);
                    return (long) (bucket - (shift << BITS)) << shift;
                }
            }
            return maxNs;
        }

        @Override
        public String toString() {
            return count + " " + percentile(0.5) + " " + percentile(0.99) + " " + percentile(0.999) + " " + maxNs;
        }
    }

    private static void answer(Frame answer) throws IOException {
        try (Selector selector = Selector.open(); ServerSocketChannel server = ServerSocketChannel.open()) {
            server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
            server.configureBlocking(false);
            server.register(selector, SelectionKey.OP_ACCEPT);
            System.out.println(server.socket().getLocalPort());
            ByteBuffer in = ByteBuffer.allocateDirect(BUFFER_BYTES);
            ByteBuffer out = ByteBuffer.allocateDirect(answer.bytes.length);
            while (true) {
                selector.select(key -> answerOne(key, server, in, out.clear().put(answer.bytes).flip(), answer));
            }
        }
    }

    /** Answers a request; they come alone and whole, as whoever sends them waits for the answer. */
    private static void answerOne(
            SelectionKey key, ServerSocketChannel server, ByteBuffer in, ByteBuffer out, Frame answer) {
        try {
            if (key.isAcceptable()) {
                SocketChannel channel = server.accept();
                channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
                channel.configureBlocking(false);
                channel.register(key.selector(), SelectionKey.OP_READ);
                return;
            }
            SocketChannel channel = (SocketChannel) key.channel();
            if (channel.read(in.clear()) < 0) {
                channel.close();
                return;
            }
            int place = Frame.find(in, OPAQUE, in.position()) + OPAQUE.length;
            for (int digit = 0; digit < DIGITS; digit++) {
                out.put(answer.place + digit, in.get(place + digit));
            }
            while (out.hasRemaining()) {
                channel.write(out);
            }
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }
}
