lmzoo train experiment=vlhmm_ptb model.states=8192 model.state_dropout=0.25 \
  optimizer.lr=0.008 optimizer.beta2=0.95 trainer.max_tokens=4096 trainer.epochs=10                # stopped after 4
lmzoo train experiment=vlhmm_ptb model.states=32768 model.state_dropout=0.65 model.parent=RUN \
  optimizer.lr=RATE optimizer.weight_decay=DECAY optimizer.beta2=0.95 trainer.max_tokens=8192 trainer.epochs=EPOCHS
