import org.apache.spark.sql.hive.thriftserver.HiveThriftServer2;

/** Spark's Thrift Server, where the classes of this folder can be found by their names. */
public class ThriftServer {
  public static void main(String[] arguments) {
    Thread.currentThread().setContextClassLoader(ThriftServer.class.getClassLoader());
    HiveThriftServer2.main(arguments);
  }
}
