"""Values that go to the browser and must come back as they were."""

import base64
import hashlib
import hmac

SEPARATOR = "."


class Signer:
    """Signs texts with one secret. Each purpose has signatures of its own: a flash is never taken for a visitor."""

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(secret.encode()).digest()

    def signature(self, purpose: str, text: str) -> str:
        """What nobody without the secret can make."""
        digest = hmac.digest(self._key, f"{purpose}\0{text}".encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def matches(self, purpose: str, text: str, signature: str) -> bool:
        """Whether the signature is that of the text, in constant time."""
        return hmac.compare_digest(self.signature(purpose, text).encode(), signature.encode(errors="replace"))

    def seal(self, purpose: str, text: str) -> str:
        """The text with its signature, fit for a cookie."""
        encoded = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        return f"{encoded}{SEPARATOR}{self.signature(purpose, encoded)}"

    def unseal(self, purpose: str, sealed: str | None) -> str | None:
        """The text, or None if it was not sealed by us for this purpose."""
        encoded, _, signature = (sealed or "").partition(SEPARATOR)
        if not encoded or not self.matches(purpose, encoded, signature):
            return None
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
