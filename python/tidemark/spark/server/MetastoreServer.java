import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.api.ThriftHiveMetastore;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/** Hive's metastore, only on loopback. Its own main method binds all interfaces. */
public class MetastoreServer {
  /** The argument is the port. HiveConf reads its settings from system properties. */
  public static void main(String[] arguments) throws Exception {
    HiveConf settings = new HiveConf();
    ThriftHiveMetastore.Iface metastore =
        HiveMetaStore.newRetryingHMSHandler("metastore", settings, true);
    // Fail here, with the reason, if the metastore cannot open its database.
    metastore.get_all_databases();
    int port = Integer.parseInt(arguments[0]);
    InetSocketAddress address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
    TThreadPoolServer.Args server = new TThreadPoolServer.Args(new TServerSocket(address));
    server.processor(new TSetIpAddressProcessor(metastore));
    server.protocolFactory(new TBinaryProtocol.Factory());
    new TThreadPoolServer(server).serve();
  }
}
