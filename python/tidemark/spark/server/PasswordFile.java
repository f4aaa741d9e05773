import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.MessageDigest;
import java.util.Base64;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;
import javax.security.sasl.AuthenticationException;
import org.apache.hive.service.auth.PasswdAuthenticationProvider;

/**
 * Authenticates one user with the file in the system property tidemark.password. Its lines are the
 * user, and the salt and key of PBKDF2 (HMAC-SHA256) in base64.
 */
public class PasswordFile implements PasswdAuthenticationProvider {
  // The same as in tidemark/spark/server/__init__.py.
  private static final int ROUNDS = 100000;

  public void Authenticate(String user, String password) throws AuthenticationException {
    boolean isRight = false;
    try {
      byte[] file = Files.readAllBytes(Paths.get(System.getProperty("tidemark.password")));
      String[] lines = new String(file, StandardCharsets.UTF_8).split("\n");
      byte[] salt = Base64.getDecoder().decode(lines[1]);
      PBEKeySpec spec = new PBEKeySpec(password.toCharArray(), salt, ROUNDS, 256);
      SecretKeyFactory factory = SecretKeyFactory.getInstance("PBKDF2WithHmacSHA256");
      byte[] key = factory.generateSecret(spec).getEncoded();
      byte[] known = Base64.getDecoder().decode(lines[2]);
      isRight = MessageDigest.isEqual(key, known) && user.equals(lines[0]);
    } catch (Exception problem) {
      throw new AuthenticationException("The password file cannot be read", problem);
    }
    if (!isRight) {
      throw new AuthenticationException("Wrong user or password");
    }
  }
}
