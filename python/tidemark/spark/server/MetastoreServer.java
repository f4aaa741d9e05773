import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.api.ThriftHiveMetastore;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/** Hive's metastore on loopback alone: its own main method binds every interface. */
public class MetastoreServer {
  /** The argument is the port; HiveConf takes its settings from system properties. */
  public static void main(String[] arguments) throws Exception {
    HiveConf settings = new HiveConf();
    ThriftHiveMetastore.Iface metastore =
        HiveMetaStore.newRetryingHMSHandler("metastore", settings, true);
    // Asked once, so that a metastore which cannot open its database ends here, with the reason.
    metastore.get_all_databases();
    int port = Integer.parseInt(arguments[0]);
    InetSocketAddress address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
    TThreadPoolServer.Args server = new TThreadPoolServer.Args(new TServerSocket(address));
    server.processor(new TSetIpAddressProcessor(metastore));
    server.protocolFactory(new TBinaryProtocol.Factory());
    new TThreadPoolServer(server).serve();
  }
}
