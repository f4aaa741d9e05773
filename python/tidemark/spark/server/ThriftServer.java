import org.apache.spark.sql.hive.thriftserver.HiveThriftServer2;

/** Spark's Thrift Server, with a class loader that finds the classes in this folder. */
public class ThriftServer {
  public static void main(String[] arguments) {
    Thread.currentThread().setContextClassLoader(ThriftServer.class.getClassLoader());
    HiveThriftServer2.main(arguments);
  }
}
