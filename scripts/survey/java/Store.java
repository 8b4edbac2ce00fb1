import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Map;
import java.util.TreeMap;
import org.h2.mvstore.MVMap;
import org.h2.mvstore.MVStore;

/**
 * Runs the ledger of ../ledger.py on stores written in Java.
 *
 * <p>{@code Store NAME work FOLDER} applies the steps on its standard input; {@code Store NAME dump FOLDER} prints all pairs,
 * after it has made sure that another commit changes nothing else; {@code Store NAME serve SOCKET} does that for ../ask.c, so
 * that Java need not be started for each check.
 */
abstract class Store implements AutoCloseable {
    /** Keys and their new values; null removes a key. When it returns, the changes are durable. */
    abstract void commit(Map<String, String> changes) throws Exception;

    abstract Map<String, String> pairs() throws Exception;

    /** Gives room back, or makes a checkpoint. */
    abstract void compact() throws Exception;

    /** H2 by way of SQL, with its defaults. */
    static final class Sql extends Store {
        private final Connection database;

        Sql(String folder) throws SQLException {
            database = DriverManager.getConnection("jdbc:h2:file:" + folder + "/ledger");
            try {
                database.setAutoCommit(false);
                execute("create table if not exists pairs (name varchar primary key, text varchar)");
            } catch (SQLException | RuntimeException error) {
                database.close();
                throw error;
            }
        }

        private void execute(String text) throws SQLException {
            try (Statement statement = database.createStatement()) {
                statement.execute(text);
            }
        }

        @Override
        void commit(Map<String, String> changes) throws SQLException {
            for (Map.Entry<String, String> change : changes.entrySet()) {
                boolean isRemoved = change.getValue() == null;
                String text = isRemoved ? "delete from pairs where name = ?" : "merge into pairs values (?, ?)";
                try (PreparedStatement statement = database.prepareStatement(text)) {
                    statement.setString(1, change.getKey());
                    if (!isRemoved) {
                        statement.setString(2, change.getValue());
                    }
                    statement.execute();
                }
            }
            database.commit();
            execute("checkpoint sync");
        }

        @Override
        Map<String, String> pairs() throws SQLException {
            Map<String, String> found = new TreeMap<>();
            try (Statement statement = database.createStatement();
                    ResultSet all = statement.executeQuery("select name, text from pairs")) {
                while (all.next()) {
                    found.put(all.getString(1), all.getString(2));
                }
            }
            return found;
        }

        @Override
        void compact() throws SQLException {
            execute("checkpoint");
        }

        @Override
        public void close() throws SQLException {
            database.close();
        }
    }

    /** H2's storage engine by itself. */
    static final class MvStore extends Store {
        private final MVStore store;
        private final MVMap<String, String> map;

        MvStore(String folder) {
            store = new MVStore.Builder().fileName(folder + "/ledger.mv").autoCommitDisabled().open();
            try {
                map = store.openMap("pairs");
            } catch (RuntimeException error) {
                store.closeImmediately();
                throw error;
            }
        }

        @Override
        void commit(Map<String, String> changes) {
            changes.forEach((key, value) -> {
                if (value == null) {
                    map.remove(key);
                } else {
                    map.put(key, value);
                }
            });
            store.commit();
            store.sync();
        }

        @Override
        Map<String, String> pairs() {
            return new TreeMap<>(map);
        }

        @Override
        void compact() {
            store.compactFile(1000);
        }

        @Override
        public void close() {
            store.close();
        }
    }

    static Store open(String name, String folder) throws SQLException {
        return switch (name) {
            case "h2" -> new Sql(folder);
            case "h2-mvstore" -> new MvStore(folder);
            default -> throw new IllegalArgumentException("unknown store " + name);
        };
    }

    static void work(String name, String folder) throws Exception {
        Store store = open(name, folder);
        Map<String, String> changes = new TreeMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "put" -> changes.put(words[1], words[2]);
                case "delete" -> changes.put(words[1], null);
                case "commit" -> {
                    store.commit(changes);
                    changes.clear();
                    acknowledge(words[1]);
                }
                case "compact" -> store.compact();
                default -> {
                    store.close();
                    store = open(name, folder);
                }
            }
        }
        store.close();
    }

    /** Waits until it is heard: what is heard late tests fewer cuts. */
    static void acknowledge(String step) throws IOException, InterruptedException {
        try (FileWriter file = new FileWriter(System.getenv("TANTALUM_ACK"))) {
            file.write(step + "\n");
        }
        Thread.sleep(20);
    }

    static String dump(String name, String folder) throws Exception {
        Map<String, String> found;
        try (Store store = open(name, folder)) {
            found = store.pairs();
            store.commit(Map.of("after", "the cut"));
        }
        Map<String, String> expected = new TreeMap<>(found);
        expected.put("after", "the cut");
        try (Store store = open(name, folder)) {
            if (!store.pairs().equals(expected)) {
                throw new IllegalStateException("a commit after the power cut changed more than it wrote");
            }
        }
        StringBuilder lines = new StringBuilder();
        found.forEach((key, value) -> lines.append(key).append('\t').append(value).append('\n'));
        return lines.toString();
    }

    static void serve(String name, String place) throws IOException {
        try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            server.bind(UnixDomainSocketAddress.of(place));
            System.out.println("ready");
            while (true) {
                SocketChannel client = server.accept();
                new Thread(() -> answer(name, client)).start();
            }
        }
    }

    /**
     * Answers one request: the folder and then words, the last of which names the store's folder; each has a zero at its end. The
     * answer ends with the exit code in one byte.
     */
    private static void answer(String name, SocketChannel client) {
        try (client) {
            byte[] request = Channels.newInputStream(client).readAllBytes();
            String[] words = new String(request, StandardCharsets.UTF_8).split("\0");
            String folder = Path.of(words[0]).resolve(words[words.length - 1]).normalize().toString();
            ByteArrayOutputStream answer = new ByteArrayOutputStream();
            try {
                answer.writeBytes(dump(name, folder).getBytes(StandardCharsets.UTF_8));
                answer.write(0);
            } catch (Exception error) {
                answer.writeBytes((error + "\n").getBytes(StandardCharsets.UTF_8));
                answer.write(1);
            }
            Channels.newOutputStream(client).write(answer.toByteArray());
        } catch (IOException givenUp) {
            System.err.println(givenUp);
        }
    }

    public static void main(String[] words) {
        try {
            // H2 takes only whole paths
            String folder = Path.of(words[2]).toAbsolutePath().normalize().toString();
            switch (words[1]) {
                case "work" -> work(words[0], folder);
                case "dump" -> System.out.print(dump(words[0], folder));
                default -> serve(words[0], folder);
            }
            System.exit(0);
        } catch (Exception error) {
            System.err.println(error);
            System.exit(1);
        }
    }
}
