import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connect.service.SparkConnectService;

/**
 * Spark with Spark Connect, until the process is ended.
 *
 * Spark's own program gives each session a class loader. Spark keeps the code that it generates per
 * class loader, so each session would compile all of it again.
 */
public class ConnectServer {
  public static void main(String[] arguments) throws InterruptedException {
    SparkSession spark = SparkSession.builder().getOrCreate();
    SparkConnectService.start(spark.sparkContext());
    Thread.currentThread().join();
  }
}
