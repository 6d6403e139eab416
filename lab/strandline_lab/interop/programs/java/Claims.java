// What programs of Java's clients share: settings, and a line for each claim.

import java.io.FileReader;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.Admin;

class Claims {
    static final int SECONDS = 60;
    static final Map<String, Object> COMMON = new HashMap<>();

    /** Takes the addresses of the brokers, and prints the version of the clients. */
    static void connect(String bootstrap) throws Exception {
        String folder = System.getenv("INTEROP_SECURITY");
        if (folder != null) {
            var security = new Properties();
            security.load(new FileReader(folder + "/java.properties"));
            security.forEach((name, value) -> COMMON.put((String) name, value));
        }
        COMMON.put("bootstrap.servers", bootstrap);
        var build = new Properties();
        build.load(Admin.class.getResourceAsStream("/kafka/kafka-version.properties"));
        System.out.println("version " + build.getProperty("version"));
    }

    static Map<String, Object> with(Map<String, Object> settings) {
        var all = new HashMap<>(COMMON);
        all.putAll(settings);
        return all;
    }

    static void until(Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + SECONDS * 1_000_000_000L;
        while (!condition.call()) {
            if (System.nanoTime() > deadline) throw new IllegalStateException("not so after " + SECONDS + " s");
            Thread.sleep(50);
        }
    }

    static Object same(Object found, Object expected) {
        if (!found.equals(expected)) throw new IllegalStateException(found + " is not " + expected);
        return null;
    }

    static void claim(String name, Callable<?> work) {
        try {
            work.call();
            System.out.println("passed " + name);
        } catch (Throwable error) {
            System.out.println("failed " + name + ": " + error.toString().replaceAll("\\s+", " "));
        }
    }
}
